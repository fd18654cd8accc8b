"""The bundle of code objects for AMD's GPUs that cmake/compile_hip_code.py writes."""

import struct
from pathlib import Path

import pytest
from compile_hip_code import (
    BUNDLE_MAGIC,
    CompileError,
    bundled_architectures,
    compile_with_hipcc,
    main,
    make_bundle,
)
from hypothesis import given
from hypothesis import strategies as st

from variantwheel.device_code import find_device_code
from variantwheel.device_targets import AMD_MACH

# Those that the program takes: generic targets are none of them.
MACH = {name: number for number, name in AMD_MACH.items() if "generic" not in name}


def _code_object(architecture: str, size: int) -> bytes:
    header = bytearray(b"\x7fELF\x02\x01\x01\x40".ljust(64, b"\0"))
    struct.pack_into("<H", header, 18, 224)
    struct.pack_into("<I", header, 48, MACH[architecture])
    return bytes(header) + b"\xaa" * size


@given(st.dictionaries(st.sampled_from(sorted(MACH)), st.integers(0, 9000), min_size=1, max_size=5))
def test_a_bundle_holds_every_object_where_a_page_begins(sizes: dict[str, int]) -> None:
    objects = {name: _code_object(name, size) for name, size in sizes.items()}
    bundle = make_bundle(objects)
    assert bundled_architectures(bundle) == list(objects)
    assert {code.architecture for code in find_device_code(bundle)} == set(objects)
    at = len(BUNDLE_MAGIC) + 8
    for data in (b"", *objects.values()):
        offset, size, length = struct.unpack_from("<QQQ", bundle, at)
        assert offset % 4096 == 0
        assert bundle[offset : offset + size] == data
        at += 24 + length


def test_what_cannot_be_compiled_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--source", "kernels.cu", "--include", ".", "--out", str(tmp_path / "out")]
    assert main([*words, "sm_90"]) == 1
    assert "'sm_90' is no architecture of AMD's GPUs" in capsys.readouterr().err
    assert main([*words, "--rocm", str(tmp_path), "gfx90a"]) == 1
    assert "no ROCm with a compiler" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_hipcc_that_fails_or_makes_no_bundle_is_an_error(tmp_path: Path) -> None:
    hipcc = tmp_path / "bin" / "hipcc"
    hipcc.parent.mkdir()
    hipcc.write_text("#!/bin/sh\necho unknown architecture; exit 3\n", encoding="utf-8")
    hipcc.chmod(0o755)
    with pytest.raises(CompileError, match=r"ended with 3:\nunknown architecture"):
        compile_with_hipcc(tmp_path, Path("kernels.cu"), Path(), ["gfx90a"])
    with pytest.raises(CompileError, match="not an uncompressed bundle"):
        bundled_architectures(b"CCOB\x02\0")
