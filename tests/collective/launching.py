"""Runs programs under the installed `horovodrun`, and many checks in one launch."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

RANKS = Path(__file__).parent / "ranks"
TESTS = Path(__file__).parents[1]  # from where programs import what they share
LAUNCH_SECONDS = 300  # until a launch that hangs is given up; importing PyTorch may take a minute
LAUNCHER = ("-m", "horovod.runner")
# Gives ranks that ignore SIGTERM more time to say what they were told.
_PATIENT = """
import sys
from horovod.runner import launch, processes
processes.TERMINATE_SECONDS = 60.0
sys.exit(launch.run_commandline())
"""
PATIENT_LAUNCHER = ("-c", _PATIENT)


@dataclass(frozen=True)
class Launched:
    """What a launch came to."""

    code: int
    out: str
    err: str

    def lines(self, rank: int, stream: str = "stdout") -> list[str]:
        """What one rank wrote."""
        prefix = f"[{rank}]<{stream}>:"
        text = self.out if stream == "stdout" else self.err
        return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def clean_environment() -> dict[str, str]:
    """What the tests were started with, less what tells ranks something."""
    ours = ("HOROVOD_", "_HOROVOD", "OMP_NUM_THREADS")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def rank_environment() -> dict[str, str]:
    """For programs of `ranks/`, which import what they share from `collective.ranks`."""
    given = clean_environment()
    paths = filter(None, [str(TESTS), given.get("PYTHONPATH")])
    return {**given, "PYTHONPATH": os.pathsep.join(paths)}


def horovodrun(
    *arguments: str | Path,
    env: dict[str, str] | None = None,
    launcher: Sequence[str] = LAUNCHER,
) -> Launched:
    """Runs `horovodrun`, or a program that changes it; fails the test when it does not end."""
    done = subprocess.run(
        [sys.executable, *launcher, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**rank_environment(), "HOROVOD_START_TIMEOUT": "120", **(env or {})},
        timeout=LAUNCH_SECONDS,
        check=False,
        cwd=Path(__file__).parent,
    )
    return Launched(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Suite:
    """Files of checks, run in one launch on some ranks over one transport.

    Attributes:
        shared_gpu: the ranks use one GPU together, see `ranks/gpu_of_rank.py`.
        default_gpu: tensors are made on a GPU, see `ranks/default_device.py`.
    """

    files: tuple[str, ...]
    ranks: int
    transport: str
    shared_gpu: bool = False
    default_gpu: bool = False

    def __str__(self) -> str:
        place = f"{'-shared' if self.shared_gpu else ''}{'-default' if self.default_gpu else ''}"
        return f"{self.ranks}-{self.transport}{place}"

    def variables(self) -> dict[str, str]:
        """Of the ranks' environment."""
        return {
            "HOROVOD_TRANSPORT": self.transport,
            "HOROVOD_DYNAMIC_PROCESS_SETS": "1",
            "OMP_NUM_THREADS": "1",  # more of them only wait for each other's cores
            "HVD_TESTS_SHARE_GPU": str(int(self.shared_gpu)),
            "HVD_TESTS_DEFAULT_GPU": str(int(self.default_gpu)),
        }


def checks_of(file: str) -> list[str]:
    """The names of a file's checks, found without importing what it imports."""
    tree = ast.parse((RANKS / file).read_text())
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]


def cases(
    files: str | tuple[str, ...],
    *configurations: tuple[int, str],
    shared_gpu: bool = False,
    default_gpu: bool = False,
    without: Collection[str] = (),
    group: str | None = None,
) -> list[object]:
    """All checks of some files in all configurations, for `parametrize(("suite", "check"), …)`.

    Those `without` run too, but are no tests. Tests of a `group` run one after the other.

    With pytest's `-n`, all of a suite are for the process that launches it.
    """
    together = (files,) if isinstance(files, str) else files
    return [
        pytest.param(
            suite,
            check,
            id=f"{check.removeprefix('check_')}-{suite}",
            marks=pytest.mark.xdist_group(group or f"{together[0]}-{suite}"),
        )
        for suite in (Suite(together, *each, shared_gpu, default_gpu) for each in configurations)
        for file in together
        for check in checks_of(file)
        if check not in without
    ]


def expect_a_rank_to_end_with_the_launcher(
    number: signal.Signals, arguments: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> None:
    """Starts one rank, with a child; a signal to the launcher ends all three.

    Args:
        number: the signal.
        arguments: of `horovodrun` before the program.
        env: beside what the tests' environment has.
    """
    with subprocess.Popen(
        [
            sys.executable, "-m", "horovod.runner", "-np", "1", *map(str, arguments),
            sys.executable, str(RANKS / "with_children.py"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**clean_environment(), **(env or {})},
    ) as launcher:  # fmt: skip
        assert launcher.stdout is not None
        processes = [int(n) for n in launcher.stdout.readline().partition(":")[2].split()]
        assert len(processes) == 2
        launcher.send_signal(number)
        assert launcher.wait(LAUNCH_SECONDS) != 0
        wait_until_gone(*processes)


def wait_until_gone(*processes: int) -> None:
    """Fails when a process still runs after half a minute; one that nobody has reaped is gone."""
    deadline = time.monotonic() + 30
    for process in processes:
        while is_running(process):
            assert time.monotonic() < deadline, f"process {process} is still there"
            time.sleep(0.02)


def is_running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
