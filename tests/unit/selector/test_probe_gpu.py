"""Looking for GPUs in trees of real files, with real libraries that answer, hang and crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unit.selector.tiny_release import make_machine
from variantwheel_selector.child_process import ChildEnd, run_child
from variantwheel_selector.machine import NVIDIA_DRIVER, Machine
from variantwheel_selector.machine_folder import read_machine, write_machine
from variantwheel_selector.nvidia_query import as_json
from variantwheel_selector.package_copy import copy_package
from variantwheel_selector.parse.nvidia_driver import parse_nvidia_driver
from variantwheel_selector.probe_gpu import GpuSearch, probe_gpu
from variantwheel_selector.providers import supported

pytestmark = pytest.mark.timeout(60)

POSIX_SPAWN = os.posix_spawn
SOURCE = Path(__file__).with_name("nvidia_libraries.c")
SONAMES = {"NVML": "libnvidia-ml.so.1", "CUDA": "libcuda.so.1"}


def build(folder: Path, library: str, **options: object) -> None:
    """Compile one of the libraries with the answers that `options` say."""
    folder.mkdir(exist_ok=True)
    defines = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-w", f"-D{library}", *defines, str(SOURCE),
         "-o", str(folder / SONAMES[library])],
        check=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system with an NVIDIA device in it."""
    for path, text in {
        "dev/nvidiactl": "",
        "dev/nvidia0": "",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01\n",
        "sys/module/nvidia/version": "590.48.01\n",
    }.items():
        (tmp_path / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / path).write_text(text, encoding="utf-8")
    return tmp_path / "root"


def look(root: Path, libraries: Path, **variables: str) -> Machine:
    """Return the machine that a probe of these places finds."""
    unknown: dict[str, str] = {}
    environment = {"PATH": str(root / "bin"), **variables}
    deadline_s = float(variables.get("TEST_DEADLINE_S", "30"))
    search = GpuSearch(str(root), [str(libraries)], deadline_s=deadline_s, environment=environment)
    return make_machine(texts=probe_gpu(search, unknown), unknown=unknown)


def add_nvidia_smi(root: Path, script: str) -> None:
    (root / "bin").mkdir()
    (root / "bin/nvidia-smi").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (root / "bin/nvidia-smi").chmod(0o755)


def is_gone(process_file: Path) -> bool:
    """Tell whether the process that left its number has ended, a moment from now at most."""
    number = int(process_file.read_text(encoding="utf-8"))
    until = time.monotonic() + 20
    while is_running(number) and time.monotonic() < until:
        time.sleep(0.01)
    return not is_running(number)


def is_written(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def is_running(number: int) -> bool:
    """One that was not reaped in time, since it ended too late, does not run."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_nothing_is_started_without_a_sign_of_a_device(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from variantwheel_selector.probe_gpu import GpuSearch, probe_gpu\n"
        f"assert probe_gpu(GpuSearch({str(tmp_path)!r}), {{}}) == {{'device_files.txt': ''}}\n"
        "assert not {'ctypes', 'subprocess'} & set(sys.modules)\n"
    )
    selector = Path(sys.modules["variantwheel_selector"].__path__[0]).parent
    subprocess.run(
        [sys.executable, "-S", "-c", script],
        check=True, env={"PYTHONPATH": str(selector)}, timeout=60,
    )  # fmt: skip


def test_answers_of_real_libraries(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML", DEVICES=4)
    build(tmp_path / "lib", "CUDA")
    machine = look(
        root, tmp_path / "lib", CUDA_VISIBLE_DEVICES="", PYTHONPATH="/nowhere", LD_PRELOAD=""
    )
    assert machine.unknown == {}
    answer = parse_nvidia_driver(machine.texts["nvidia_driver.txt"])
    assert answer.nvml is not None
    assert answer.nvml.init == 0, "the child's environment is not clean"
    assert [device.capability for device in answer.nvml.devices] == [(8, 0), (8, 6), (8, 6), None]
    assert answer.cuda_devices is not None
    assert [device.capability for device in answer.cuda_devices.devices] == [(8, 7), (8, 7)]
    features = {item.name: item for item in supported(machine)["nvidia"].features}
    assert features["cuda_version_lower_bound"].values[0] == "13.1"
    assert features["sm_arch"].values[:2] == ("80_real", "80_virtual")
    basis = features["sm_arch"].basis
    for words in ("driver 590.48.01", "MIG is on for 1 of 4", "device 3 (error 15)", "CUDA_VIS"):
        assert words in basis


def test_what_was_captured_gives_the_same_answers(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML")
    build(tmp_path / "lib", "CUDA")
    machine = look(root, tmp_path / "lib", CUDA_VISIBLE_DEVICES="7\n8\xff")
    write_machine(machine, tmp_path / "captured")
    again = read_machine(tmp_path / "captured")
    assert again == machine
    assert supported(again) == supported(machine)


def test_no_process_for_a_release_without_such_variants(root: Path, tmp_path: Path) -> None:
    search = GpuSearch(str(root), [str(tmp_path)], environment={})
    assert "nvidia_driver.txt" not in probe_gpu(search, {}, nvidia=False)


def test_no_process_without_a_device_node(root: Path, tmp_path: Path) -> None:
    """The host's driver is visible in every container."""
    build(tmp_path / "lib", "NVML")
    shutil.rmtree(root / "dev")
    machine = look(root, tmp_path / "lib")
    assert "nvidia_driver.txt" not in machine.texts
    assert "start the container with --gpus all" in supported(machine)["nvidia"].absent


def test_without_libraries(root: Path, tmp_path: Path) -> None:
    assert "neither libcuda.so.1 nor" in supported(look(root, tmp_path))["nvidia"].absent
    build(tmp_path / "lib", "NVML")
    assert "compute,utility" in supported(look(root, tmp_path / "lib"))["nvidia"].absent


def test_a_file_that_is_no_library(root: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("nothing of the kind", encoding="utf-8")
    assert "file too short" in supported(look(root, tmp_path))["nvidia"].absent


def test_a_library_of_another_version_than_the_driver(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML", INIT=18)
    build(tmp_path / "lib", "CUDA", INIT=803)
    assert "error 18" in supported(look(root, tmp_path / "lib"))["nvidia"].unknown


def test_a_crash_in_cuinit_leaves_the_answers_before_it(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML")
    build(tmp_path / "lib", "CUDA", MISBEHAVE="crash()")
    machine = look(root, tmp_path / "lib")
    assert f"signal {signal.SIGSEGV.value}" in machine.unknown["nvidia_driver"]
    answer = supported(machine)["nvidia"]
    assert answer.features[0].values[0] == "13.1"
    assert "not confirmed by cuInit" in answer.features[0].basis


def test_a_crash_in_nvml_is_no_crash_here(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML", MISBEHAVE="crash()")
    machine = look(root, tmp_path / "lib")
    assert f"signal {signal.SIGSEGV.value}" in supported(machine)["nvidia"].unknown


def test_a_driver_that_hangs_is_left_behind(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "lib", "NVML", MISBEHAVE="hang()")
    process_file = tmp_path / "process"

    def spawn_and_await_hang(*arguments: Any, **options: Any) -> int:
        number = POSIX_SPAWN(*arguments, **options)
        until = time.monotonic() + 40
        while not is_written(process_file) and time.monotonic() < until:
            time.sleep(0.01)
        return number

    monkeypatch.setattr(os, "posix_spawn", spawn_and_await_hang)
    add_nvidia_smi(root, "echo 8.0")
    machine = look(root, tmp_path / "lib", TEST_PROCESS_FILE=str(process_file), TEST_DEADLINE_S="3")
    assert "did not end in time" in supported(machine)["nvidia"].unknown
    assert "no time was left" in machine.unknown["nvidia_smi"]
    assert is_gone(process_file)


def test_a_library_that_floods_its_output_is_ended(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML", MISBEHAVE="flood()")
    process_file = tmp_path / "process"
    machine = look(root, tmp_path / "lib", TEST_PROCESS_FILE=str(process_file))
    assert "more than 65536 bytes" in machine.unknown["nvidia_driver"]
    assert len(machine.texts.get("nvidia_driver.txt", "")) <= 65536
    assert is_gone(process_file)


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        ("printf '8.6\\n8.0\\n'", ""),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch'", "Failed to init"),
        ("echo 8.6; exit 9", "exit status 9"),
        ("while :; do echo 8.6; done", "more than 4096 bytes"),
        ("exec sleep 1000", "did not end in time"),
    ],
)
def test_nvidia_smi_is_asked_last(root: Path, tmp_path: Path, script: str, trouble: str) -> None:
    build(tmp_path / "lib", "CUDA", DEVICES=0)
    add_nvidia_smi(root, f"PATH=/usr/bin:/bin\n{script}")
    patience = "10" if "sleep" in script else "60"
    machine = look(root, tmp_path / "lib", TEST_DEADLINE_S=patience)
    features = {item.name: item for item in supported(machine)["nvidia"].features}
    if trouble:
        assert trouble in machine.unknown["nvidia_smi"]
        assert "nvidia_smi.txt" not in machine.texts
    else:
        assert machine.texts["nvidia_smi.txt"] == "8.6\n8.0\n"
        assert features["sm_arch"].values[0] == "80_real"


def test_nvidia_smi_is_not_asked_when_the_libraries_know(root: Path, tmp_path: Path) -> None:
    build(tmp_path / "lib", "NVML")
    build(tmp_path / "lib", "CUDA")
    add_nvidia_smi(root, f"touch {tmp_path}/asked; echo 8.0")
    look(root, tmp_path / "lib")
    assert not (tmp_path / "asked").exists()


def test_a_child_that_no_signal_ends_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What a process in the kernel's hands does: it is told to end, and stays.
    told: list[int] = []
    monkeypatch.setattr("os.killpg", lambda group, _: told.append(group))
    end = run_child(["/bin/sleep", "1000"], dict(os.environ), time.monotonic() + 0.2, 100)
    monkeypatch.undo()
    assert "left behind" in end.trouble
    (group,) = told
    assert os.waitpid(group, os.WNOHANG) == (0, 0), "it must still be running"
    os.killpg(group, signal.SIGKILL)
    os.waitpid(group, 0)


@pytest.mark.parametrize(
    "missing",
    [(), ("pidfd_open",), ("memfd_create",), ("setsid",), ("pidfd_open", "memfd_create", "setsid")],
)
def test_children_where_the_system_lacks_a_call(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    """Older kernels, older C libraries, and other systems than Linux."""
    for name in missing:
        if name == "setsid":
            monkeypatch.setattr(os, "posix_spawn", spawn_without_setsid)
        else:
            monkeypatch.delattr(os, name)

    def run(program: str, seconds: float, limit: int = 100) -> ChildEnd:
        command = [sys.executable, "-I", "-S", "-c", program]
        return run_child(command, {}, time.monotonic() + seconds, limit)

    open_before = len(list(Path("/proc/self/fd").iterdir()))
    assert run("print(1)", 50) == ChildEnd(b"1\n", "")
    assert run("import time; time.sleep(0.1); print(2)", 50) == ChildEnd(b"2\n", "")
    assert run("raise SystemExit(3)", 50).trouble == "ended with exit status 3"
    assert run("while True: print('x' * 1000)", 50, 5000).trouble == "printed more than 5000 bytes"
    assert "left behind" in run("import time; print(4, flush=True); time.sleep(1000)", 0.3).trouble
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def spawn_without_setsid(*arguments: Any, setsid: bool = False, **options: Any) -> int:
    """What `os.posix_spawn` does where Python was built for glibc before 2.26."""
    if setsid:
        raise NotImplementedError("setsid unavailable on this platform")
    return POSIX_SPAWN(*arguments, **options)


def test_children_hold_nothing_of_their_parent() -> None:
    """Whoever reads a pipe to its end must not wait for a child that was left behind."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)  # noqa: FBT003 - takes no keywords
    script = "import os; print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid())"
    end = run_child([sys.executable, "-I", "-S", "-c", script], {}, time.monotonic() + 50, 100)
    os.close(reading)
    os.close(writing)
    # The last is the folder that is being listed.
    assert end == ChildEnd(b"['0', '1', '2', '3'] True\n", "")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_the_child_prints_is_json(value: object) -> None:
    assert json.loads(as_json(value)) == value
    assert as_json(value).isascii()


def test_a_path_that_is_no_text_is_json() -> None:
    path = os.fsdecode(b"/lib\xff")
    assert json.loads(as_json({"library": path})) == {"library": path}


def test_a_program_that_is_not_there() -> None:
    end = run_child(["/nonexistent"], {}, time.monotonic() + 10, 100)
    assert "could not be run" in end.trouble


def test_amd_topology_is_read(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    for number, text in {0: "cpu_cores_count 8\nsimd_count 0\n", 10: "simd_count 4\n",
                         2: "simd_count 416\ngfx_target_version 90010\ndrm_render_minor 129\n"
                         }.items():  # fmt: skip
        (nodes / str(number)).mkdir(parents=True)
        (nodes / str(number) / "properties").write_text(text, encoding="utf-8")
    (nodes / "10/properties").unlink()  # unreadable, as under EPERM, which root does not get
    for path, text in {"dev/kfd": "", "dev/dri/renderD129": "", "dev/dri/card0": "",
                       "opt/rocm-6.3.1/.info/version": "6.3.1-48\n",
                       "sys/module/amdgpu/version": "6.10.5\n"}.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    environment = {"HSA_OVERRIDE_GFX_VERSION": "9.4.2"}
    unknown: dict[str, str] = {}
    texts = probe_gpu(GpuSearch(str(tmp_path), environment=environment), unknown)
    assert "nvidia_driver.txt" not in texts
    assert [line for line in texts["kfd_nodes.txt"].splitlines() if line.startswith("node")] == [
        "node 0", "node 2", "node 10"
    ]  # fmt: skip
    answer = supported(make_machine(texts=texts))["amd"]
    values = [feature.values for feature in answer.features]
    assert values == [("gfx942", "gfx9_4_generic"), ("6.3",)]
    assert "node 10: No such file" in answer.features[0].basis
    assert "amdgpu 6.10.5" in answer.features[0].basis


def test_the_copy_in_a_selector_sdist_asks_the_libraries(root: Path, tmp_path: Path) -> None:
    libraries = tmp_path / "libraries"
    build(libraries, "CUDA", VERSION=12040)
    copy_package(tmp_path / "_selector")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import variantwheel_selector\n"
        "from variantwheel_selector.probe_gpu import GpuSearch, probe_gpu\n"
        "unknown = {}\n"
        "texts = probe_gpu(GpuSearch(sys.argv[2], [sys.argv[3]], deadline_s=30), unknown)\n"
        "print(variantwheel_selector.__file__, texts[sys.argv[4]], unknown)\n"
    )
    places = [str(tmp_path / "_selector"), str(root), str(libraries), NVIDIA_DRIVER]
    printed = subprocess.run(
        [sys.executable, "-I", "-c", program, *places],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    assert printed.startswith(str(tmp_path)), printed
    assert "cuda" in printed, printed
    assert printed.rstrip().endswith("{}"), printed
