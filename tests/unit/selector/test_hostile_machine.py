"""Machines that lie, hang or refuse: facts become unknown, and the choice goes on."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from unit.selector.gpu_release import GPU_RELEASE
from unit.selector.tiny_release import make_machine
from variantwheel_selector import probe as probing
from variantwheel_selector import probe_gpu as gpu_probing
from variantwheel_selector.bounded_read import open_regular, read_bounded
from variantwheel_selector.gpu_signs import without_gpu
from variantwheel_selector.parse.cpuinfo import cpu_flags
from variantwheel_selector.probe_gpu import GpuSearch, probe_gpu
from variantwheel_selector.providers import supported
from variantwheel_selector.selection import select
from variantwheel_selector.settings import Settings

pytestmark = pytest.mark.timeout(120)

SELECTOR = Path(sys.modules["variantwheel_selector"].__path__[0]).parent
HERE = cpu_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8"))

# Runs inside a mount namespace: everything that is mounted goes away with the process.
REPORT = """
import json, sys, time
start = time.monotonic()
from variantwheel_selector.model import Variant
from variantwheel_selector.probe import probe
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import Settings
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo
providers = {name: ProviderInfo(requires=("p",)) for name in ("nvidia", "amd", "x86_64")}
variants = [Variant("null"), Variant.from_strings("v3", ["x86_64 :: level :: v3"]),
            Variant.from_strings("cu12", ["nvidia :: sm_arch :: 90_real"])]
info = VariantsInfo(tuple(providers), {item.label: item for item in variants}, providers)
names = {f"demo-1.0-py3-none-any-{item.label}.whl": None for item in variants}
release = Release("demo", "1.0", info, names)
machine = probe(libraries=True)
found = select(release, Settings(), machine)
print(json.dumps({"unknown": dict(machine.unknown), "chosen": found.resolution.winner.label,
                  "sizes": {name: len(text) for name, text in machine.texts.items()}}))
"""


def in_namespace(setup: str, folder: Path) -> dict[str, dict[str, str] | str]:
    """Run the report after shell commands in a mount namespace of its own."""
    found = json.loads(run_in_namespace(setup, REPORT, folder))
    assert isinstance(found, dict)
    return found


def run_in_namespace(setup: str, program: str, folder: Path) -> str:
    """Return what a program prints after shell commands in a mount namespace of its own."""
    script = f"set -e\n{textwrap.dedent(setup)}\nexec {sys.executable} -c '{program}'"
    command = ["unshare", "--mount", "--propagation", "private"]
    if os.getuid() != 0:
        command += ["--user", "--map-root-user"]
    done = subprocess.run(
        [*command, "sh", "-c", script], check=True, capture_output=True, text=True, cwd=folder,
        env={"PYTHONPATH": str(SELECTOR), "PATH": os.environ["PATH"]}, timeout=60,
    )  # fmt: skip
    return done.stdout


def test_a_cpuinfo_of_100_megabytes(tmp_path: Path) -> None:
    found = in_namespace(
        """
        printf 'flags : ' > huge
        truncate -s 104857600 huge
        mount --bind huge /proc/cpuinfo
        """,
        tmp_path,
    )
    assert found["sizes"]["cpuinfo.txt"] <= 16 * 1024  # type: ignore[index, operator]
    assert found["chosen"] in ("v3", "null")


def test_a_named_pipe_in_place_of_cpuinfo(tmp_path: Path) -> None:
    found = in_namespace("mkfifo pipe\nmount --bind pipe /proc/cpuinfo", tmp_path)
    assert "no regular file" in found["unknown"]["cpuinfo"]  # type: ignore[index]
    # glibc still knows the CPU.
    assert found["chosen"] == ("v3" if HERE and "avx2" in HERE else "null")


def test_neither_proc_nor_sys(tmp_path: Path) -> None:
    found = in_namespace("mount -t tmpfs none /sys\nmount -t tmpfs none /proc", tmp_path)
    assert set(found["unknown"]) >= {"cpuinfo", "auxv"}
    assert found["chosen"] in ("v3", "null")


def test_an_empty_dev_and_an_empty_proc(tmp_path: Path) -> None:
    found = in_namespace("mount -t tmpfs none /dev\nmount -t tmpfs none /proc", tmp_path)
    assert found["chosen"] in ("v3", "null")


def make(root: Path, path: str, content: bytes = b"") -> Path:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


def test_pipes_and_huge_files_in_place_of_drivers_files(tmp_path: Path) -> None:
    """None of them is waited for or read as a whole."""
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    make(tmp_path, "/dev/kfd")
    make(tmp_path, f"{nodes}/0/properties", b"simd_count 416\ngfx_target_version 90010\n" * 500_000)
    for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version",
                 "/sys/devices/soc0/family", f"{nodes}/1/properties", "/proc/bus/pci/devices",
                 "/opt/rocm/.info/version"):  # fmt: skip
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(place)
    make(tmp_path, "/sys/module/amdgpu/version", b"6" * 10_000_000)
    texts = probe_gpu(GpuSearch(str(tmp_path), environment={}), {})
    assert "unreadable it is no regular file" in texts["kfd_nodes.txt"]
    assert len(texts["kfd_nodes.txt"]) < 10_000
    answer = supported(make_machine(texts=texts))["amd"]
    assert answer.features[0].values == ("gfx90a_xnack_off", "gfx90a")
    assert "node 1: it is no regular file" in answer.features[0].basis


@pytest.mark.parametrize("device", ["", "/dev/nvhost-gpu"])
def test_no_link_to_the_toolkit_is_followed(tmp_path: Path, device: str) -> None:
    """What lies behind it may be a network's, and one that never ends is as good as no answer."""
    if device:
        make(tmp_path, device)
    toolkit = make(tmp_path, "/usr/local/here").with_name("cuda")
    toolkit.symlink_to(toolkit)
    assert (without_gpu(str(tmp_path)) is None) is bool(device)
    texts = probe_gpu(GpuSearch(str(tmp_path), environment={}), {}, nvidia=False)
    assert "/usr/local/cuda present\n" in texts["device_files.txt"]


@pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no FUSE here")
def test_a_stuck_mount_behind_the_toolkit_is_not_waited_for(tmp_path: Path) -> None:
    found = run_in_namespace(
        """
        mkdir -p stuck root/usr/local
        exec 9<>/dev/fuse
        mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 nobody stuck
        ln -s "$PWD/stuck" root/usr/local/cuda
        """,
        'from variantwheel_selector.gpu_signs import without_gpu; print(without_gpu("root"))',
        tmp_path,
    )
    assert found.strip() == "/usr/local/cuda present"


def test_what_may_not_be_read_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM, which a device's cgroup and seccomp filters answer even to root."""

    def refuse(path: str, limit: int) -> bytes:
        if path.startswith("/proc") or "properties" in path:
            raise PermissionError(1, "Operation not permitted", path)
        return read_bounded(path, limit)

    monkeypatch.setattr(probing, "read_bounded", refuse)
    monkeypatch.setattr(gpu_probing, "read_bounded", refuse)
    monkeypatch.setattr("variantwheel_selector.probe_cpu.glibc_cpuid", lambda: "")
    make(tmp_path, "/dev/kfd")
    make(tmp_path, "/sys/class/kfd/kfd/topology/nodes/1/properties", b"simd_count 1\n")
    machine = probing.probe(gpu_search=GpuSearch(str(tmp_path), environment={}))
    assert machine.unknown["cpuinfo"] == "cannot read /proc/cpuinfo: Operation not permitted"
    selection = select(GPU_RELEASE, Settings(), machine)
    reasons = {item.label: "; ".join(item.reasons) for item in selection.resolution.candidates}
    assert selection.resolution.winner is not None
    assert selection.resolution.winner.label == "null"
    assert "Operation not permitted" in reasons["x86_64_v3"]
    assert "not this process's to use (node 1: Operation not permitted)" in reasons["rocm"]


@pytest.mark.parametrize("kind", ["folder", "missing", "pipe"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError):
        read_bounded(str(path), 10)
    with pytest.raises(OSError):
        open_regular(path)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = make(tmp_path, "x", b"0123456789")
    assert read_bounded(str(path), 4) == b"0123"
    with open_regular(path) as file:
        assert file.read() == b"0123456789"
    assert read_bounded("/proc/self/stat", 100_000)
