"""`horovod.run(..., use_mpi=True)`: when the launcher ends, mpirun and its ranks end with it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collective.launching import LAUNCH_SECONDS, wait_until_gone
from collective.mpi_launching import environment

# Under nohup, or in the background of a shell's script, the tests would hand on ignored signals.
LAUNCHER = """
import horovod, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
def on_rank(stubborn):
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, f"runs: {os.getpid()} {os.getppid()}\\n".encode())
    signal.pause()
horovod.run(on_rank, ("stubborn" in sys.argv,), num_proc=2, use_mpi=True)
"""
SAID = {
    signal.SIGINT: "KeyboardInterrupt",
    signal.SIGTERM: "this process has got the signal SIGTERM.",
    signal.SIGHUP: "this process has got the signal SIGHUP.",
}
# Claims to be Open MPI, and has a rank in a group of its own, as that has.
DEAF_MPIRUN = """\
#!/bin/sh
[ "$1" = --version ] && exec echo "mpirun (Open MPI) 5.0"
trap '' TERM
exec 3>&1
set -m
sh -c 'echo "runs: $$ $PPID"; exec sleep 600' >&3 &
wait
"""


@contextlib.contextmanager
def launched(*words: str, env: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


def processes(launcher: "subprocess.Popen[str]", ranks: int) -> set[int]:
    """Of the ranks and of what has started them, as they say."""
    assert launcher.stdout is not None
    said = (re.search(r"runs: (\d+) (\d+)", line) for line in launcher.stdout)
    running = (match for match in said if match is not None)
    found = [next(running, None) for _ in range(ranks)]
    assert None not in found, launcher.communicate()[1]
    return {int(number) for match in found if match is not None for number in match.groups()}


def end(launcher: "subprocess.Popen[str]", number: signal.Signals, *others: int) -> str:
    """Sends a signal; returns what the launcher says when it and all others have ended."""
    launcher.send_signal(number)
    assert launcher.wait(LAUNCH_SECONDS) != 0
    wait_until_gone(*others)
    assert launcher.stderr is not None
    return launcher.stderr.read()


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGTERM, ()),
        (signal.SIGINT, ("stubborn",)),
        (signal.SIGHUP, ()),
        (signal.SIGKILL, ("stubborn",)),
    ],
)
def test_the_ranks_end_with_the_launcher(
    mpi: str, number: signal.Signals, words: tuple[str, ...]
) -> None:
    with launched("-c", LAUNCHER, *words, env=environment(mpi)) as launcher:
        numbers = processes(launcher, 2)
        assert len(numbers) == 3
        said = end(launcher, number, *numbers)
    if number != signal.SIGKILL:
        assert SAID[number] in said


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_ranks_end_with_the_command_that_has_become_mpirun(mpi: str) -> None:
    rank = "import os, signal; os.write(1, b'runs: %d %d\\n' % (os.getpid(), os.getppid()))"
    words = ("-m", "horovod.runner", "--mpi", "-np", "2", sys.executable, "-c")
    with launched(*words, f"{rank}; signal.pause()", env=environment(mpi)) as launcher:
        end(launcher, signal.SIGTERM, *processes(launcher, 2))


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_ranks_end_with_an_mpirun_that_is_killed(mpi: str) -> None:
    variables = environment(mpi)
    with launched("-c", LAUNCHER, env=variables) as launcher:
        numbers = processes(launcher, 2)
        told = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
        *_, mpirun = map(int, told.split())  # after the guardian
        os.kill(mpirun, signal.SIGKILL)
        wait_until_gone(mpirun, *numbers)
        assert "The job ended with code 137." in launcher.communicate()[1]
    # What Open MPI's leaves would fail a later one of its process id.
    assert not (Path(variables["TMPDIR"]) / f"ompi.{mpirun}").exists()


@pytest.mark.parametrize("again", [False, True])
def test_an_mpirun_that_does_not_end_is_killed(
    again: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    program = tmp_path / "mpirun"
    program.write_text(DEAF_MPIRUN)
    program.chmod(0o755)
    patience = LAUNCH_SECONDS if again else 0.1
    script = (
        "from horovod.runner import mpirun_process, signals\n"
        "signals.AGAIN_SECONDS = 0.0\n"
        f"mpirun_process._ENDING_SECONDS = {patience}\n{LAUNCHER}"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with launched("-c", script, env={**environment("openmpi"), "PATH": path}) as launcher:
        numbers = processes(launcher, 1)
        if again:
            launcher.send_signal(signal.SIGTERM)
        said = end(launcher, signal.SIGINT if again else signal.SIGTERM, *numbers)
    # Of two signals that come together either may be the first.
    assert SAID[signal.SIGTERM] in said or (again and SAID[signal.SIGINT] in said), said


def test_a_launcher_reads_its_own_standard_input() -> None:
    script = "import horovod, sys; horovod.run(int, use_mpi=True); print(sys.stdin.read())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="for the launcher",
        capture_output=True,
        text=True,
        env=environment("openmpi"),
        timeout=LAUNCH_SECONDS,
        check=True,
    )
    assert done.stdout == "for the launcher\n"
