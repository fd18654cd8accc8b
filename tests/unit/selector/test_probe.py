"""Reading this machine, natively and under emulation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging import tags

from unit.selector.tiny_release import make_machine
from variantwheel_selector.machine import PythonFacts
from variantwheel_selector.machine_folder import read_machine, write_machine
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.probe import _abis, probe
from variantwheel_selector.providers import supported
from variantwheel_selector.record import replace
from variantwheel_selector.tags import supported_tags

# Run by another interpreter, so that it prints one JSON line and imports nothing else.
_REPORT = """
import json, sys
from variantwheel_selector.probe import probe
from variantwheel_selector.providers import LevelCap, supported
machine = probe()
(level,) = supported(machine, cap=LevelCap(None))["x86_64"].features
print(json.dumps({"level": level.values[0], "basis": level.basis, "texts": list(machine.texts),
                  "heavy": sorted({"ctypes", "subprocess"} & set(sys.modules))}))
"""


def _report(*launcher: str) -> dict[str, object]:
    selector = Path(sys.modules["variantwheel_selector"].__path__[0]).parent
    done = subprocess.run(
        [*launcher, sys.executable, "-c", _REPORT],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(selector)},
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_tags_are_those_of_packaging() -> None:
    assert list(supported_tags(probe())) == [str(tag) for tag in tags.sys_tags()]


@given(
    st.sampled_from(["cp310", "cp311", "cp313", "cp314", "cp315"]),
    st.sampled_from(["", "t", "d", "td"]),
    st.sampled_from(["glibc 2.17", "glibc 2.36", "musl 1.2", None]),
    st.sampled_from(["x86_64", "aarch64"]),
)
def test_tags_of_other_pythons_are_those_of_packaging(
    python: str, flags: str, libc: str | None, machine: str
) -> None:
    version, abi = (3, int(python[3:])), python + flags
    abis = (abi, abi.removesuffix("d")) if flags.endswith("d") else (abi,)
    found = supported_tags(
        replace(
            make_machine(machine=machine), libc=libc,
            python=PythonFacts(python, f"3.{version[1]}.0", abis),
        )
    )  # fmt: skip
    platforms = list(dict.fromkeys(tag.partition("-none-")[2] for tag in found if "-none-" in tag))
    platforms.remove("any")
    theirs = [
        *tags.cpython_tags(version, list(abis), platforms),
        *tags.compatible_tags(version, python, platforms),
    ]
    assert found == tuple(map(str, theirs))


@pytest.mark.parametrize("machine", ["arm64", "x86_64"])
def test_tags_of_macos_are_those_of_packaging(machine: str) -> None:
    found = supported_tags(replace(make_machine(machine=machine), system="darwin", libc=None))
    platforms = [tag.removeprefix("py3-none-") for tag in found if tag.startswith("py3-none-mac")]
    assert platforms == list(tags.mac_platforms((11, 0), machine))


def test_this_machine_needs_neither_ctypes_nor_a_subprocess() -> None:
    report = _report()
    assert report["heavy"] == []
    assert report["texts"] == ["cpuinfo.txt", "auxv.txt", "device_files.txt"]
    assert report["basis"] == "/proc/cpuinfo"


def test_only_the_first_processor_is_kept() -> None:
    text = probe().texts["cpuinfo.txt"]
    assert text.count("processor") == 1
    assert len(text) <= 16 * 1024
    assert cpu_flags(text)


def test_a_captured_machine_is_the_same_machine(tmp_path: Path) -> None:
    machine = probe()
    write_machine(machine, tmp_path / "captured")
    assert read_machine(tmp_path / "captured") == machine
    assert supported(read_machine(tmp_path / "captured")) == supported(machine)


@pytest.mark.emulation
@pytest.mark.parametrize(
    ("model", "level"), [("qemu64", "v1"), ("Nehalem", "v2"), ("Haswell-noTSX", "v3")]
)
def test_an_emulated_cpu_is_not_the_host(model: str, level: str) -> None:
    report = _report("qemu-x86_64-static", "-cpu", model)
    assert report["level"] == level
    assert report["basis"] == "CPUID as glibc read it"


@pytest.mark.parametrize(
    ("suffix", "abis"),
    [
        (".cpython-311-x86_64-linux-gnu.so", ("cp311",)),
        (".cpython-313t-aarch64-linux-gnu.so", ("cp313t",)),
        (".cpython-312d-x86_64-linux-gnu.so", ("cp312d", "cp312")),
        (".cpython-312-darwin.so", ("cp312",)),
        (".cp312-win_amd64.pyd", ("cp312",)),
        (".pypy310-pp73-x86_64-linux-gnu.so", ("pypy310_pp73",)),
    ],
)
def test_abis_of_an_extension_suffix(suffix: str, abis: tuple[str, ...]) -> None:
    assert _abis([suffix, ".abi3.so"]) == abis


def test_a_python_that_loads_no_extensions_takes_pure_wheels() -> None:
    assert _abis([]) == ()
    here = make_machine()
    machine = replace(here, python=replace(here.python, abis=()))
    found = supported_tags(machine)
    assert "py3-none-any" in found
    assert not [tag for tag in found if "-cp311-" in tag]
