"""Device code is found in whatever holds it, and nothing else is taken for device code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.variants.device_files import (
    amd_code_object,
    bundle,
    cubin,
    cubin_of_cuda_13,
    fat_binary,
    ptx,
)
from variantwheel.device_code import find_device_code
from variantwheel.native_library import read_native_libraries

AMD = "amdgcn-amd-amdhsa"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (cubin(70), ["70_real"]),
        (cubin(90) + cubin(75) + cubin(90), ["75_real", "90_real"]),
        (cubin_of_cuda_13(100) + cubin_of_cuda_13(121), ["100_real", "121_real"]),
        (ptx(90), ["90_virtual"]),
        (ptx("90a"), ["90a_virtual"]),
        (b".target sm_90", []),  # a text that speaks of PTX
        (fat_binary([("elf", 75), ("elf", 90), ("ptx", 90)]), ["75_real", "90_real", "90_virtual"]),
        (fat_binary([("elf", 75)])[:-1], []),  # cut off
        (amd_code_object(0x3F), ["gfx90a"]),
        (amd_code_object(0x4C) + amd_code_object(0x41), ["gfx1100", "gfx942"]),
        (
            bundle([f"hipv4-{AMD}--gfx90a:sramecc+:xnack-", f"hip-{AMD}--gfx1030"]),
            ["gfx1030", "gfx90a_sramecc_on_xnack_off"],
        ),
        (bundle([f"hipv4-{AMD}--gfx9-4-generic:xnack+"]), ["gfx9_4_generic_xnack_on"]),
        (amd_code_object(0x553), ["gfx10_3_generic"]),
        (amd_code_object(0xB3F), ["gfx90a_sramecc_off_xnack_on"]),
        (bundle([]), []),
        (b"CCOB\x02\x00\x01\x00" + bytes(40), [""]),
        (amd_code_object(0xFE), [""]),
    ],
)  # fmt: skip
def test_each_form_is_found_at_any_place(data: bytes, found: list[str]) -> None:
    for start in (b"", b"\x7fELF\x02\x01\0\0\0", bytes(1000)):
        assert [item.architecture for item in find_device_code(start + data)] == found


@given(st.binary(), st.sampled_from([cubin(80), ptx(80), fat_binary([("elf", 80)]), bundle(["x"])]))
def test_no_bytes_are_too_odd(noise: bytes, code: bytes) -> None:
    half = len(code) // 2
    find_device_code(noise + code[:half] + noise)
    assert find_device_code(code + noise) != [] or code.startswith(b"__CLANG")


def test_a_library_holds_it_in_a_byte_array(tmp_path: Path) -> None:
    numbers = ",".join(str(byte) for byte in cubin(86))
    source = f"const unsigned char __attribute__((aligned(16))) kernels[] = {{{numbers}}};\n"
    (tmp_path / "kernels.c").write_text(source, encoding="utf-8")
    command = ["cc", "-shared", "-fPIC", "kernels.c", "-o", "kernels.so"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    (found,) = find_device_code((tmp_path / "kernels.so").read_bytes())
    assert found.architecture == "86_real"


def test_what_a_gpu_executes_is_no_library_of_the_machine() -> None:
    files = {
        "gpu/kernels.sm_80.cubin": cubin(80),
        "gpu/kernels.gfx90a": amd_code_object(0x3F),
        "core.so": Path("/proc/self/exe").read_bytes(),
    }
    assert [library.path for library in read_native_libraries(files)] == ["core.so"]
