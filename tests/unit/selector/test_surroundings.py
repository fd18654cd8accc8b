"""What is shown and never decides: MPI, NCCL and RCCL, PCI cards, musl, sysctl, batch systems."""

import os
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.tiny_release import make_machine
from variantwheel_selector import probe as probing
from variantwheel_selector.machine import Machine
from variantwheel_selector.parse.libraries import SONAMES, cached_paths, parse_libraries
from variantwheel_selector.parse.musl import elf_interpreter, musl_version
from variantwheel_selector.parse.pci import is_gpu_class, listed_addresses, parse_pci_cards
from variantwheel_selector.parse.sysctl import arm_features, parse_sysctl, x86_flags
from variantwheel_selector.probe import _batch_system, probe
from variantwheel_selector.probe_gpu import GpuSearch, probe_gpu
from variantwheel_selector.probe_libraries import probe_libraries
from variantwheel_selector.providers import supported
from variantwheel_selector.surroundings import surroundings
from variantwheel_selector.tags import supported_tags

CAPTURES = Path(__file__).parents[4] / "shared/captures/cpuinfo"


def put(root: Path, path: str, content: bytes = b"") -> Path:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


def test_libraries_are_found_and_not_opened(tmp_path: Path) -> None:
    """The files hold nothing that could be opened as a library."""
    put(tmp_path, "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libmpi.so.40").symlink_to("libmpi.so.40.30.4")
    put(tmp_path, "/own/libnccl.so.2")
    put(tmp_path, "/opt/cached/librccl.so.1")
    put(
        tmp_path,
        "/etc/ld.so.cache",
        b"glibc-ld.so.cache1.1\0librccl.so.1\0/opt/cached/librccl.so.1\0",
    )
    texts = probe_libraries(str(tmp_path), {"LD_LIBRARY_PATH": "/own:relative:"})
    found = surroundings(make_machine(texts=texts))
    assert found["MPI"] == "Open MPI (40.30.4, /usr/lib/x86_64-linux-gnu/libmpi.so.40)"
    assert found["NCCL"] == "NCCL (/own/libnccl.so.2)"
    assert found["RCCL"] == "RCCL (/opt/cached/librccl.so.1)"
    assert surroundings(make_machine(texts=probe_libraries(str(tmp_path / "no"), {}))) == {
        "MPI": "none found", "NCCL": "none found", "RCCL": "none found"
    }  # fmt: skip
    assert "MPI" not in surroundings(make_machine("sse2"))


def test_libraries_are_no_selection_axis(tmp_path: Path) -> None:
    texts = {"cpuinfo.txt": "flags : sse2\n", "device_files.txt": ""}
    library = {"libraries.txt": "/usr/lib/libnccl.so.2\tlibnccl.so.2.27.3\n"}
    assert supported(make_machine(texts=texts)) == supported(make_machine(texts=texts | library))


def test_cards_on_the_pci_bus(tmp_path: Path) -> None:
    listing = [
        "0000\t80860d57\t0\t0",
        "0100\t10de2684\tb\t0\t0\tnouveau",
        "0101\t10de22ba\tb\t0\t0\tsnd_hda_intel",
        "41f9\t1002740f\tb\t0\t0",
    ]
    put(tmp_path, "/proc/bus/pci/devices", "\n".join(listing).encode())
    devices = "/sys/bus/pci/devices"
    for address, number in (
        ("0000:01:00.0", "0x030000"), ("0000:01:00.1", "0x040300"), ("0001:41:1f.1", "0x038000")
    ):  # fmt: skip
        put(tmp_path, f"{devices}/{address}/class", f"{number}\n".encode())
    put(tmp_path, "/sys/bus/pci/drivers/nouveau/bind")
    (tmp_path / f"{devices[1:]}/0000:01:00.0/driver").symlink_to("../../drivers/nouveau")
    texts = probe_gpu(GpuSearch(str(tmp_path), environment={}), {})
    assert texts["pci_cards.txt"] == "0000:01:00.0 10de:2684 nouveau\n0001:41:1f.1 1002:740f -\n"
    support = supported(make_machine(texts=texts))
    assert "in the hands of nouveau" in support["nvidia"].absent
    assert "1002:740f at 0001:41:1f.1, without a driver" in support["amd"].absent


def test_the_graphics_core_of_a_card_that_kfd_does_not_offer(tmp_path: Path) -> None:
    put(tmp_path, "/proc/bus/pci/devices", b"4300\t1002744c\tb\t0\t0\tamdgpu")
    card = "/sys/bus/pci/devices/0000:43:00.0"
    put(tmp_path, f"{card}/class", b"0x030000\n")
    core = f"{card}/ip_discovery/die/0/GC/0"
    for name, number in (("major", b"11\n"), ("minor", b"0\n"), ("revision", b"0\n")):
        put(tmp_path, f"{core}/{name}", number)
    texts = probe_gpu(GpuSearch(root=str(tmp_path), nvidia_smi=None), {})
    assert texts["pci_cards.txt"] == "0000:43:00.0 1002:744c - gc=11.0.0\n"
    put(tmp_path, f"{core}/revision", b"x" * 4096)
    texts = probe_gpu(GpuSearch(root=str(tmp_path), nvidia_smi=None), {})
    assert texts["pci_cards.txt"] == "0000:43:00.0 1002:744c -\n"


@pytest.mark.parametrize(
    ("core", "target"),
    [("9.4.2", "gfx90a"), ("9.4.3", "gfx942"), ("10.1.10", "gfx1010"), ("10.3.2", "gfx1032"),
     ("11.5.1", "gfx1151"), ("12.0.1", "gfx1201"), ("9.3.0", ""), ("11.0.99", "")],
)  # fmt: skip
def test_targets_of_graphics_cores(core: str, target: str) -> None:
    (card,) = parse_pci_cards(f"0000:43:00.0 1002:744c amdgpu gc={core}\n")
    assert (card.core, card.target) == (core, target)
    assert (f", {target} by its graphics core" in card.words()) == bool(target)


def program(interpreter: str, *, wide: bool = True) -> bytes:
    if wide:
        header = (
            b"\x7fELF\x02\x01\x01"
            + bytes(9)
            + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
        )
        programs = struct.pack("<IIQQQQQQ", 6, 4, 64, 0, 0, 0, 0, 8) + struct.pack(
            "<IIQQQQQQ", 3, 4, 176, 0, 0, 0, 0, 1
        )
    else:
        header = (
            b"\x7fELF\x01\x01\x01"
            + bytes(9)
            + struct.pack("<HHIIIIIHHHHHH", 3, 3, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0)
        )
        programs = struct.pack("<IIIIIIII", 3, 84, 0, 0, 0, 0, 4, 1)
    return header + programs + interpreter.encode() + b"\0rest"


@pytest.mark.parametrize(("wide", "path"), [(True, "/lib/ld-musl-x86_64.so.1"), (False, "/lib/ld")])
def test_the_interpreter_of_a_program(*, wide: bool, path: str) -> None:
    assert elf_interpreter(program(path, wide=wide)) == path
    assert elf_interpreter(Path("/proc/self/exe").resolve().read_bytes()[:65536])


LOADER = b"\x7fELF...musl libc (x86_64)\nVersion %s\n\0...\x001.2.5\x00..."


def test_the_version_of_musl() -> None:
    assert musl_version(LOADER) == "musl 1.2"
    assert musl_version(LOADER.replace(b"musl libc", b"glibc")) is None
    assert musl_version(LOADER.replace(b"1.2.5", b"1.2.5-git-12-gabc")) == "musl 1.2"


def test_a_machine_of_musl_is_known_by_the_loader_of_its_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def confstr(name: str) -> str:
        raise ValueError(f"unrecognized configuration name: {name}")

    loader = put(tmp_path, "lib/ld-musl-x86_64.so.1", LOADER)
    monkeypatch.setattr(os, "confstr", confstr)
    monkeypatch.setattr(sys, "executable", str(put(tmp_path, "python", program(str(loader)))))
    machine = probe()
    assert machine.libc == "musl 1.2"
    assert "musllinux_1_2_" in " ".join(supported_tags(machine))
    loader.write_bytes(b"\x7fELF")
    machine = probe()
    assert (machine.libc, machine.unknown["libc"]) == (
        None, "not glibc: confstr knows no CS_GNU_LIBC_VERSION; and not musl"
    )  # fmt: skip
    loader.unlink()
    assert (
        probe().unknown["libc"] == f"not glibc, and cannot read {loader}: No such file or directory"
    )


def test_a_link_of_a_batch_system_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "slurm.conf"
    link.symlink_to(link)
    monkeypatch.setattr(probing, "_BATCH_FILES", (str(link), f"{link}.no"))
    assert _batch_system({}) == {"batch_system.txt": f"{link}\n"}


def test_batch_systems_are_noticed_without_their_values() -> None:
    texts = _batch_system({"SLURM_JOB_ID": "123", "SLURM_TOKEN": "secret", "HOME": "/"})
    assert texts["batch_system.txt"].startswith("variables SLURM_*\n")
    assert "secret" not in texts["batch_system.txt"]
    assert "setting 'profile'" in surroundings(make_machine(texts=texts))["batch system"]


@given(
    st.binary(max_size=400) | st.binary(max_size=200).map(lambda data: b"\x7fELF\x02\x01" + data)
)
def test_no_bytes_are_too_odd(data: bytes) -> None:
    elf_interpreter(data)
    musl_version(data)
    cached_paths(data)


@given(st.text() | st.text(alphabet="0123456789abcdef:. \t\n-x/libmpncr.so"))
def test_no_text_is_too_odd(text: str) -> None:
    for parse in (listed_addresses, parse_pci_cards, parse_libraries, is_gpu_class):
        parse(text)
    values = parse_sysctl(text)
    x86_flags(values)
    arm_features(values)
    texts = dict.fromkeys(
        ("sysctl.txt", "libraries.txt", "batch_system.txt", "pci_cards.txt"), text
    )
    machine: Machine = make_machine(texts=texts | {"device_files.txt": ""})
    surroundings(machine)
    supported(machine)


def test_what_is_looked_for_has_a_name() -> None:
    assert {words.split()[0] for words in SONAMES.values()} <= {"MPI", "Open", "NCCL", "RCCL"}


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="captures are not beside this checkout")
def test_real_captures_of_macos() -> None:
    ivybridge = parse_sysctl((CAPTURES / "darwin-mojave-ivybridge").read_text(encoding="utf-8"))
    machine = make_machine(
        texts={"sysctl.txt": "".join(f"{k}: {v}\n" for k, v in ivybridge.items())}
    )
    assert supported(machine)["x86_64"].features[0].values == ("v2", "v1")
    text = (CAPTURES / "darwin-sequoia-m3").read_text(encoding="utf-8")
    machine = make_machine(machine="arm64", texts={"sysctl.txt": text})
    assert supported(machine)["aarch64"].features[0].values[0] == "8.6a"
