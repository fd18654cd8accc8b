"""`horovod.run`: a function on all ranks, its results and its failures."""

import contextlib
import inspect
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import horovod
import horovod.runner
from horovod.runner.launch import is_gloo_used

LAUNCH_SECONDS = 300  # ranks import this file, and find nothing else of the tests


def summed(value: float, *, big: int = 0) -> tuple[int, float, int]:
    import array  # noqa: PLC0415 - this runs on the ranks

    import horovod.array as hvd  # noqa: PLC0415 - as above

    hvd.init()
    total = hvd.allreduce(array.array("d", [value + hvd.rank()]), op=hvd.Sum)
    return hvd.rank(), float(next(iter(total))), len(bytes(big))


def test_results_come_by_rank() -> None:
    offset = 10.0
    big = bytes(2_500_000)  # more than one value of the store holds, both ways

    def on_rank(extra: bytes) -> Any:
        return (*summed(offset), extra)

    results = horovod.run(on_rank, (big,), num_proc=2, network_interfaces="lo")
    assert results == [(0, 21.0, 0, big), (1, 21.0, 0, big)]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_job_may_be_run_by_a_child_of_multiprocessing(method: str, tmp_path: Path) -> None:
    """Which calls the script `__mp_main__`, a name that the ranks do not know."""
    script = tmp_path / "sweep.py"
    script.write_text(f"""
import dataclasses
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import horovod


@dataclasses.dataclass
class Found:
    value: float


def on_rank(value):
    import horovod.array as hvd
    hvd.init()
    return Found(value + hvd.rank())


def job(value):
    found = horovod.run(on_rank, (value,), num_proc=2, network_interfaces="lo")
    return [each.value for each in found if isinstance(each, Found)]


if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context({method!r})) as pool:
        print(pool.submit(job, 1.5).result())
""")
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert done.stdout == "[1.5, 2.5]\n", done.stderr


def test_a_folder_that_is_gone_is_named_as_by_horovodrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(OSError, match=r"^the current folder cannot be used: No such file"):
        horovod.run(summed, (1.0,), num_proc=2)


def test_an_elastic_job_gives_the_results_of_the_least_ranks() -> None:
    assert horovod.runner.run(summed, (1.0,), num_proc=2, min_num_proc=1) == [(0, 3.0, 0)]


def test_output_goes_where_the_script_writes() -> None:
    """In a notebook that is no file, and takes text alone."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        sys.stdout.write("before\n")
        horovod.run(lambda: sys.stdout.write("within\n"), num_proc=2)
        sys.stdout.write("after\n")
    before, *within, after = shown.getvalue().splitlines()
    assert (before, after) == ("before", "after")
    assert sorted(within) == ["[0]<stdout>:within", "[1]<stdout>:within"]


# From CPython 3.12 on no thread starts any more when the main one has ended.
LATE = """
import threading, horovod
def late():
    threading.main_thread().join()
    print(horovod.run(lambda: 3, num_proc=2))
threading.Thread(target=late).start()
"""


def test_a_thread_that_outlives_the_main_one_is_told_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        capture_output=True,
        text=True,
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    if sys.version_info < (3, 12):
        assert done.stdout == "[3, 3]\n"
    else:
        assert "cannot start the store's thread: Python is ending" in done.stderr


def test_a_failure_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        raise LookupError("the moon is not there")

    with pytest.raises(RuntimeError, match="The first process to do so was:\nProcess name: 0"):
        horovod.run(fails)
    assert "LookupError: the moon is not there" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("ending", "named"), [((0,), "rank 0,"), ((1,), "rank 1,"), ((0, 2), "ranks 0, 2,")]
)
def test_ranks_that_end_without_a_result_are_named(ending: tuple[int, ...], named: str) -> None:
    def on_rank() -> str:
        rank = os.environ["HOROVOD_RANK"]
        if int(rank) in ending:
            sys.exit(0)
        return rank

    with pytest.raises(RuntimeError, match=f"No result came from {named} .*as sys.exit.0. does"):
        horovod.run(on_rank, num_proc=3)


def test_an_elastic_job_needs_the_results_of_the_least_ranks_alone() -> None:
    def on_rank(ending: str) -> int:
        import horovod.array as hvd  # noqa: PLC0415 - this runs on the ranks

        hvd.init()
        rank = os.environ["HOROVOD_RANK"]
        hvd.shutdown()
        if rank == ending:
            sys.exit(0)
        return int(rank)

    assert horovod.run(on_rank, ("1",), num_proc=2, min_num_proc=1) == [0]
    with pytest.raises(RuntimeError, match="No result came from rank 0, "):
        horovod.run(on_rank, ("0",), num_proc=2, min_num_proc=1)


def test_an_elastic_job_that_is_not_told_the_least_ranks_gives_as_many_results_as_it_began_with(
    tmp_path: Path,
) -> None:
    script = tmp_path / "hosts"
    script.write_text("#!/bin/sh\necho localhost:3\n")
    script.chmod(0o755)
    found = horovod.run(
        summed, (1.0,), num_proc=2, max_num_proc=3, host_discovery_script=str(script)
    )
    assert [rank for rank, _, _ in found] == [0, 1]


@pytest.mark.parametrize(
    ("hosts", "reason"),
    [
        ({"hosts": "localhost:1"}, "There is 1 slot, at least 2 are needed, and no host will come"),
        ({"host_discovery_script": "exit 3"}, "cannot tell the hosts: exit 3 ended with code 3"),
    ],
)
def test_why_an_elastic_job_cannot_go_on_is_raised(hosts: dict[str, Any], reason: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{reason}"):
        horovod.run(os.getpid, num_proc=2, min_num_proc=2, **hosts)


def test_a_failure_of_an_elastic_job_is_raised() -> None:
    def fails() -> None:
        import horovod.array as hvd  # noqa: PLC0415 - this runs on the ranks

        hvd.init()
        raise LookupError

    with pytest.raises(RuntimeError, match="to do so was:\nProcess name: 0\nExit code: 1"):
        horovod.run(fails, min_num_proc=1)


def test_arguments_of_mpi_are_idle_without_it() -> None:
    with pytest.warns(UserWarning, match="mpi_args has no effect without use_mpi=True"):
        assert horovod.run(max, (1, 2), mpi_args="--verbose") == [2]


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"max_num_proc": 1}, "min_num_proc or"),
        ({"reset_limit": 1}, "min_num_proc or"),
        ({"cooldown_range": (1, 2)}, "min_num_proc or"),
        ({"slots": 1}, "host_discovery_script"),
        ({"slots": 1, "min_num_proc": 1}, "host_discovery_script"),
    ],
)
def test_arguments_of_elastic_jobs_are_idle_in_others(options: Any, needed: str) -> None:
    name = next(iter(options))
    with pytest.warns(UserWarning, match=f"{name} has no effect without {needed}") as said:
        assert horovod.run(max, (1, 2), **options) == [2]
    assert said[0].filename == __file__


def test_positions_are_horovods() -> None:
    assert list(inspect.signature(horovod.run).parameters) == [
        "func", "args", "kwargs", "num_proc", "min_num_proc", "max_num_proc", "slots",
        "reset_limit", "cooldown_range", "hosts", "hostfile", "host_discovery_script",
        "start_timeout", "ssh_port", "ssh_identity_file", "disable_cache", "output_filename",
        "verbose", "use_gloo", "use_mpi", "mpi_args", "network_interface", "network_interfaces",
        "executable", "np", "min_np", "max_np",
    ]  # fmt: skip


@pytest.mark.parametrize("interfaces", [["lo"], ("lo",), {"lo"}, "lo", "lo, none", ["none,lo"]])
def test_interfaces_are_given_in_any_form(interfaces: Any) -> None:
    told = horovod.run(os.getenv, ("HOROVOD_GLOO_IFACE",), network_interfaces=interfaces)
    assert set(told[0].split(",")) - {"none"} == {"lo"}


def test_arguments_that_are_wrong_or_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="hosts and hostfile only allow one"):
        horovod.run(summed, hosts="localhost:1", hostfile="hosts")
    with pytest.raises(ValueError, match="use_gloo and use_mpi only allow one"):
        horovod.run(summed, use_gloo=True, use_mpi=True)
    with pytest.raises(ValueError, match="An elastic job needs the built-in launcher"):
        horovod.run(summed, use_mpi=True, min_num_proc=1)
    with (
        pytest.warns(DeprecationWarning, match="`np` of horovod.run is deprecated"),
        pytest.raises(ValueError, match="Requested more processes"),
    ):
        horovod.run(summed, np=3, hosts="localhost:2")
    assert is_gloo_used()
    assert not is_gloo_used(use_mpi=True)


def test_names_of_the_script_are_not_those_of_the_ranks_program() -> None:
    (names,) = horovod.run(eval, ("sorted(vars(__import__('__main__')))",))
    assert not [name for name in names if not name.startswith("__")]


def test_a_function_of_the_script_takes_cloudpickle(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "sys.modules['cloudpickle'] = None\n"
        "import horovod\n"
        "def main():\n    return 1\n"
        "print(horovod.run(max, (3, 4)))\n"
        "horovod.run(main)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[4]\n", done.stderr
    last = done.stderr.splitlines()[-1]
    assert "PicklingError: pickle cannot take <function main at" in last
    assert "pip install cloudpickle" in last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_proc": -1}, "num_proc=-1 is not a whole number, 1 or more"),
        ({"num_proc": 0}, "num_proc=0 is not"),
        ({"num_proc": "2"}, "num_proc='2' is not"),
        ({"min_num_proc": 0}, "min_num_proc=0 is not"),
        ({"min_num_proc": 1, "slots": -1}, "slots=-1 is not a whole number, 1 or more"),
        (
            {"min_num_proc": 1, "reset_limit": "x"},
            "reset_limit='x' is not a whole number, 0 or more",
        ),
        ({"ssh_port": "x"}, "ssh_port='x' is not a whole number"),
        ({"start_timeout": -1}, "start_timeout=-1 is not a number of seconds above 0"),
        ({"start_timeout": math.inf}, "start_timeout=inf is not"),
        (
            {"min_num_proc": 1, "cooldown_range": 5},
            "cooldown_range=5 is not two numbers of seconds",
        ),
        (
            {"min_num_proc": 1, "cooldown_range": ("a", "b")},
            "cooldown_range='a' is not a number of seconds",
        ),
        (
            {"min_num_proc": 1, "cooldown_range": (5, 1)},
            "cooldown_range=(5, 1): the shortest time is above",
        ),
        ({"hosts": ["localhost"]}, "hosts=['localhost'] is not of the form"),
        ({"host_discovery_script": 5}, "host_discovery_script=5 is no path"),
        (
            {"num_proc": 2, "min_num_proc": 3, "max_num_proc": 1},
            "min_num_proc 3 <= num_proc 2 <= max_num_proc 1 does not hold",
        ),
        ({"num_proc": 2, "min_num_proc": 3}, "min_num_proc 3 <= num_proc 2 does not hold"),
    ],
)
def test_arguments_are_looked_at_before_anything_is_started(
    arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        horovod.run(len, **arguments)


def test_a_cooldown_may_be_longer_than_clocks_can_count() -> None:
    long: Any = {"cooldown_range": (1e300, 1e301), "start_timeout": 1e300}
    assert horovod.run(summed, (1.0,), min_num_proc=2, **long) == horovod.run(
        summed, (1.0,), num_proc=2
    )


def plant(folder: Path, *names: str) -> Path:
    """Writes modules that say that they have been run."""
    ran = folder / "ran"
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})\n")
    return ran


def in_folder(folder: Path, *command: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder, capture_output=True, text=True, timeout=LAUNCH_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


CALLER = """
import horovod, beside
def main():
    import beside_too
    return beside.name(), beside_too.__name__
hosts = "localhost:1"
print(horovod.run(main, hosts=hosts), horovod.run(beside.name, hosts=hosts))
"""


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2"])
def test_ranks_find_the_callers_modules_and_run_none_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    here, scripts, programs = (tmp_path / name for name in ("here", "scripts", "programs"))
    for folder in (here, scripts, programs):
        folder.mkdir()
    ran = plant(here, "pickle", "cloudpickle", "horovod", "struct", "beside", "site")
    ssh = programs / "ssh"  # what it stands in for starts in the user's own folder
    ssh.write_text('#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (scripts / "script.py").write_text(CALLER.replace("localhost", host))
    (scripts / "beside.py").write_text("def name():\n    return __name__\n")
    (scripts / "beside_too.py").touch()
    assert in_folder(here, scripts / "script.py") == "[('beside', 'beside_too')] ['beside']\n"
    assert not ran.exists()


def test_the_current_folder_is_looked_into_where_the_caller_does(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def name():\n    return __name__\n")
    call = "import horovod, beside; print(horovod.run(beside.name, num_proc=1))"
    assert in_folder(tmp_path, "-c", call) == "['beside']\n"


def test_questions_about_the_build_run_nothing_of_the_current_folder(tmp_path: Path) -> None:
    here, script = tmp_path / "here", tmp_path / "script.py"
    here.mkdir()
    ran = plant(here, "pickle", "horovod", "struct", "torch")
    script.write_text(
        "from horovod.common.util import extension_available, gpu_available\n"
        "gpu_available('torch'), print(extension_available('array'))\n"
    )
    assert in_folder(here, script) == "True\n"
    assert not ran.exists()
