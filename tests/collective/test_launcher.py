"""`horovodrun` and its workers: output, exit codes, and that nothing stays behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collective.conftest import Launch
from collective.launching import (
    LAUNCH_SECONDS,
    LAUNCHER,
    RANKS,
    clean_environment,
    horovodrun,
    is_running,
    wait_until_gone,
)

PYTHON = sys.executable


def python(code: str) -> tuple[str, str, str]:
    return PYTHON, "-c", code


def test_output_has_the_rank_in_front_of_each_line() -> None:
    launched = horovodrun(
        "-np", "2", *python("import sys; print('a\\nb'); sys.stderr.write('no line end')")
    )
    assert launched.code == 0
    for rank in (0, 1):
        assert launched.lines(rank) == ["a", "b"]
        assert launched.lines(rank, "stderr") == ["no line end"]


def test_workers_get_horovods_environment() -> None:
    names = (
        "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE HOSTNAME CONTROLLER CPU_OPERATIONS"
    )
    code = f"import os; print(*(os.environ['HOROVOD_' + n] for n in {names!r}.split()))"
    launched = horovodrun("-np", "2", "--start-timeout", "77", *python(code))
    assert launched.lines(0) == ["0 2 0 2 0 1 localhost gloo gloo"]
    assert launched.lines(1) == ["1 2 1 2 0 1 localhost gloo gloo"]
    code = (
        "import os; e = os.environ; print(e['HOROVOD_GLOO_RENDEZVOUS_ADDR'],"
        " e['HOROVOD_START_TIMEOUT'], e['PYTHONUNBUFFERED'],"
        " len(e['_HOROVOD_SECRET_KEY']), e['MINE'])"
    )
    launched = horovodrun("-np", "1", "--start-timeout", "77", *python(code), env={"MINE": "kept"})
    assert launched.lines(0) == ["127.0.0.1 77.0 1 64 kept"]
    launched = horovodrun(
        "-np",
        "1",
        "MINE=1",
        "HIS=a b",
        *python("import os; print(os.environ['MINE'], os.environ['HIS'])"),
    )
    assert launched.lines(0) == ["1 a b"]


def test_a_job_that_a_rank_of_an_elastic_one_starts_is_none_itself() -> None:
    code = "import os; print(*(name for name in sorted(os.environ) if '_ELASTIC' in name))"
    inner = (PYTHON, *LAUNCHER, "-np", "1", *python(code))
    launched = horovodrun("-np", "1", "--min-np", "1", *inner)
    assert launched.lines(0) == ["[0]<stdout>:"]


def test_every_job_has_a_secret_of_its_own() -> None:
    code = "import os; print(os.environ['_HOROVOD_SECRET_KEY'])"
    first, second = (horovodrun("-np", "1", *python(code)).lines(0) for _ in range(2))
    assert first != second


def test_output_is_kept_in_files(tmp_path: Path) -> None:
    launched = horovodrun("-np", "2", "--output-filename", tmp_path / "out", *python("print('x')"))
    assert launched.lines(1) == ["x"]
    assert (tmp_path / "out" / "rank.1" / "stdout").read_text() == "x\n"
    assert (tmp_path / "out" / "rank.0" / "stderr").read_text() == ""


def test_a_program_that_does_not_exist() -> None:
    launched = horovodrun("-np", "2", "no-such-program")
    assert launched.code == 127
    assert "cannot start 'no-such-program'" in launched.lines(0, "stderr")[0]
    assert "Traceback" not in launched.err


def executable(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("name", ["launching.py", "./launching.py"])
def test_a_python_script_that_no_python_is_named_for(name: str) -> None:
    launched = horovodrun("-np", "1", name)
    assert launched.code == 127
    assert launched.lines(0, "stderr")[0].endswith(f"; it is started by: python {name}")


@pytest.mark.parametrize("by_path", [True, False])
def test_a_script_that_names_no_shell_is_run_by_sh(tmp_path: Path, *, by_path: bool) -> None:
    script = executable(tmp_path / "run.sh", b'echo "$HOROVOD_RANK: $1"; exit 7\n')
    search = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    launched = horovodrun("-np", "1", script if by_path else script.name, "two words", env=search)
    assert (launched.lines(0), launched.code) == (["0: two words"], 7)


def test_a_program_for_another_machine_is_no_script(tmp_path: Path) -> None:
    program = executable(tmp_path / "foreign", b"\x7fELF" + bytes(64))
    launched = horovodrun("-np", "1", program)
    assert launched.code == 127
    assert "Exec format error" in launched.lines(0, "stderr")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-np", "3", "-H", "localhost:2", "x"), "Requested more processes (3) than there are"),
        (("-np", "3", "-H", "localhost", "x"), "Invalid host input"),
        (("-np", "1", "-hostfile", "/no/such/file", "x"), "cannot read the host file"),
        (("-np", "1", "-H", "no-such-host.invalid:1", "x"), "no way to host"),
        (("-np", "1", "--output-filename", "/dev/null/x", "x"), "cannot keep the output in"),
    ],
)
def test_unusable_arguments_are_a_usage_error(arguments: tuple[str, ...], message: str) -> None:
    launched = horovodrun(*arguments)
    assert launched.code == 2
    assert f"horovodrun: error: {message}" in launched.err
    assert "Traceback" not in launched.err


@contextmanager
def running(
    *arguments: str, hang_up: signal.Handlers = signal.SIG_DFL
) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A launcher with two workers that have told their own and their children's numbers."""
    prepare = (
        "import os, signal, sys;"
        f" signal.signal(signal.SIGHUP, signal.Handlers({int(hang_up)}));"
        " os.execv(sys.argv[1], sys.argv[1:])"
    )
    launcher = subprocess.Popen(
        [
            *python(prepare),
            PYTHON,
            "-m",
            "horovod.runner",
            "-np",
            "2",
            PYTHON,
            RANKS / "with_children.py",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment(),
    )
    try:
        assert launcher.stdout is not None
        told = [launcher.stdout.readline().partition(":")[2] for _ in range(2)]
        yield launcher, [int(number) for line in told for number in line.split()]
    finally:
        launcher.kill()
        launcher.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_workers_and_their_children(number: signal.Signals) -> None:
    with running() as (launcher, processes):
        assert len(processes) == 4
        assert all(map(is_running, processes))
        launcher.send_signal(number)
        assert launcher.wait(LAUNCH_SECONDS) == 128 + number
        wait_until_gone(*processes)


def test_a_launcher_under_nohup_outlives_the_terminal() -> None:
    with running(hang_up=signal.SIG_IGN) as (launcher, processes):
        launcher.send_signal(signal.SIGHUP)
        os.kill(processes[0], signal.SIGKILL)
        assert launcher.wait(LAUNCH_SECONDS) == 128 + signal.SIGKILL
        wait_until_gone(*processes)


@pytest.mark.parametrize("arguments", [(), ("stubborn",)])
def test_a_launcher_that_is_killed_leaves_no_workers(arguments: tuple[str, ...]) -> None:
    with running(*arguments) as (launcher, processes):
        launcher.kill()
        wait_until_gone(*processes)


def test_a_folder_that_is_gone_is_a_usage_error(tmp_path: Path) -> None:
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, sys.argv[1:])"
    folder = tmp_path / "gone"
    folder.mkdir()
    done = subprocess.run(
        [*python(code), PYTHON, "-m", "horovod.runner", "-np", "1", "true"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("horovodrun: error: the current folder cannot be used: No such")


def test_a_machine_without_ssh_is_told_so(tmp_path: Path) -> None:
    launched = horovodrun(
        "-np", "2", "-H", "localhost:1,127.0.0.2:1", *python("import signal; signal.pause()"),
        env={"PATH": str(tmp_path)},
    )  # fmt: skip
    assert launched.code == 127
    assert "cannot start 'ssh': No such file or directory\n" in launched.err
    assert "Traceback" not in launched.err


def test_an_agent_that_gets_no_order_says_so() -> None:
    done = subprocess.run(
        [PYTHON, "-m", "horovod.runner.remote"],
        input=b'{"arguments": ["tr',
        capture_output=True,
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (127, b"\nHOROVOD-AGENT-STARTED\n")
    assert done.stderr.startswith(b"no order has come: ")
    assert done.stderr.count(b"\n") == 1


def test_workers_that_ignore_sigterm_are_killed() -> None:
    with running("stubborn") as (launcher, processes):
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(LAUNCH_SECONDS) == 128 + signal.SIGTERM
        wait_until_gone(*processes)


def test_the_first_failure_ends_the_others_and_their_children() -> None:
    with running("fail") as (launcher, processes):
        assert launcher.wait(LAUNCH_SECONDS) == 9
        wait_until_gone(*processes)


def test_what_a_worker_leaves_behind_is_ended() -> None:
    with running("leave") as (launcher, processes):
        assert launcher.wait(LAUNCH_SECONDS) == 0
        wait_until_gone(*processes)


def test_workers_may_write_more_than_a_pipe_holds(launch: Launch) -> None:
    line = "x" * 1000
    launched = horovodrun("-np", "2", *python(f"for _ in range(2000): print({line!r})"))
    assert launched.lines(0) == [line] * 2000
    assert launched.lines(1) == [line] * 2000


def test_a_rank_that_ends_before_it_joins_is_noticed_at_once() -> None:
    code = (
        "import os, sys, horovod.array as hvd\n"
        "if os.environ['HOROVOD_RANK'] == '1': sys.exit(0)\n"
        "hvd.init()"
    )
    launched = horovodrun("-np", "2", *python(code))  # the ranks would wait for two minutes
    assert launched.code == 1
    why = "Process 1 ended with code 0 before it had called hvd.init(), which Process 0 has called."
    assert f"Terminating remaining workers: {why}" in launched.err
    assert launched.err.endswith(f"The job was ended: {why}\n")
    assert "non-zero" not in launched.err


@pytest.mark.parametrize("flags", [(), ("--min-np", "1")], ids=["static", "elastic"])
def test_a_host_that_does_not_answer_is_given_up(tmp_path: Path, flags: tuple[str, ...]) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    launched = horovodrun(
        "-np", "2", *flags, "-H", "localhost:1,127.0.0.2:1", "--start-timeout", "5",
        *python("import time, horovod.array as hvd; time.sleep(1); hvd.init(); print(hvd.size())"),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert "127.0.0.2 has not answered within 5 seconds (--start-timeout)" in launched.err
    if flags:
        assert (launched.code, launched.lines(0)) == (0, ["1"])
    else:
        assert launched.code == 255


# Rank 1 suspends the launcher, its parent, calls init() and ends long before rank 0.
SUSPENDING = """
import os, signal, subprocess, time
if os.environ["HOROVOD_RANK"] == "1":
    time.sleep(1)
    os.kill(os.getppid(), signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep 6.5; kill -CONT {os.getppid()}"])
import horovod.array as hvd
hvd.init()
rank = hvd.rank()
hvd.barrier()
hvd.shutdown()
time.sleep(2 - 2 * rank)
print("done", rank)
"""


@pytest.mark.parametrize("flags", [(), ("--min-np", "2")], ids=["static", "elastic"])
def test_a_launcher_that_pauses_fails_no_job(flags: tuple[str, ...]) -> None:
    launched = horovodrun("-np", "2", *flags, *python(SUSPENDING))
    assert launched.code == 0, launched.err
    assert (launched.lines(0), launched.lines(1)) == (["done 0"], ["done 1"])


def test_a_job_ends_early_and_quietly_when_nobody_reads_its_output() -> None:
    forever = "while True: print('y', flush=True)"
    launcher = subprocess.Popen(
        [PYTHON, "-m", "horovod.runner", "-np", "2", *python(forever)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    assert launcher.stdout is not None
    assert launcher.stderr is not None
    launcher.stdout.readline()
    launcher.stdout.close()
    assert launcher.stderr.read() == b""
    launcher.stderr.close()
    assert launcher.wait(LAUNCH_SECONDS) == 128 + signal.SIGPIPE


def test_a_report_that_nobody_can_read_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, *LAUNCHER, "--check-build"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=clean_environment(),
            timeout=LAUNCH_SECONDS,
            check=False,
        )
    assert done.stderr == (
        b"horovodrun: error: the report cannot be written: No space left on device\n"
    )
    assert done.returncode == 3


def test_check_build_says_what_really_loads() -> None:
    launched = horovodrun("--check-build")
    assert launched.code == 0, launched.out
    assert "Available Controllers:\n    [ ] MPI\n    [X] Gloo\n" in launched.out
    assert "    [X] Gloo    \n\nVariant:\n" in launched.out


@pytest.mark.parametrize("module", ["horovod.runner", "horovod.runner.launch"])
def test_the_launcher_is_started_as_a_module_too(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "-np", "1", *map(str, python("print('ran')"))],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[0]<stdout>:ran\n"), done.stderr


# `horovodrun` whose help has a letter that ASCII has not.
_WITH_ANOTHER_LETTER = """
import sys
from horovod.runner import arguments, launch
arguments.EPILOG += chr(0xe9)
sys.exit(launch.run_commandline())
"""


def test_words_without_letters_in_the_terminals_encoding_are_written() -> None:
    ascii_alone = ("-c", _WITH_ANOTHER_LETTER, "--help")
    launched = horovodrun(env={"PYTHONIOENCODING": "ascii"}, launcher=ascii_alone)
    assert (launched.code, launched.err) == (0, "")
    assert "-H HOST:N,..." in launched.out
    assert launched.out.endswith("\\xe9\n")


def test_version_is_the_packages() -> None:
    import horovod  # noqa: PLC0415 - what the interpreter under test has

    assert horovodrun("-v").out == f"{horovod.__version__}\n"


def test_a_host_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"\xef\xbb\xbflocalhost slots=1\r\n")
    assert horovodrun("-np", "1", "--hostfile", hosts, "echo", "fine").lines(0) == ["fine"]
