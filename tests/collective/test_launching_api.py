"""What other launchers call: `_HorovodArgs`, `launch._run` and its neighbours."""

import os
import sys
from typing import Any

import pytest

from horovod.runner import _HorovodArgs
from horovod.runner.launch import _run, check_build, run_controller

SHOW = """
import os
names = ["HOROVOD_RANK", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD", "NCCL_IB_DISABLE"]
names += ["HOROVOD_LOG_HIDE_TIME", "HOROVOD_STALL_CHECK_DISABLE", "HOROVOD_TIMELINE"]
print(*map(os.environ.get, names))
"""


def test_a_command_gets_all_that_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    args = _HorovodArgs()
    args.num_proc = 2
    args.hosts = "localhost:2"
    args.use_gloo = True
    args.use_mpi = False
    args.nics = {"lo"}
    args.verbose = 2
    args.cycle_time_ms = 3.5
    args.fusion_threshold_mb = 2
    args.tcp_flag = True
    args.log_with_timestamp = False
    args.no_stall_check = True
    args.timeline_filename = "t.json"
    args.command = [sys.executable, "-c", SHOW]
    assert _run(args) is None
    out = capfd.readouterr().out
    for rank in (0, 1):
        assert f"[{rank}]<stdout>:{rank} 3.5 {2 << 20} 1 1 1 t.json\n" in out


def test_a_failed_command_is_an_error() -> None:
    args = _HorovodArgs()
    args.num_proc = 2
    args.command = [
        sys.executable, "-c", "import os; exit(5 * int(os.environ['HOROVOD_RANK']))"
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="to do so was:\nProcess name: 1\nExit code: 5"):
        _run(args)


@pytest.mark.parametrize("elastic", [True, False])
def test_a_functions_results_come_by_rank(*, elastic: bool) -> None:
    args = _HorovodArgs()
    args.num_proc = 2
    args.min_num_proc = 2 if elastic else None
    args.executable = sys.executable
    args.run_func = lambda: os.environ["HOROVOD_RANK"]
    if elastic:

        def on_rank() -> str:
            import horovod.array as hvd  # noqa: PLC0415 - this runs on the ranks

            hvd.init()
            return str(hvd.rank())

        args.run_func = on_rank
    assert _run(args) == ["0", "1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"use_jsrun": True}, "use_jsrun cannot be used: this build does not start jsrun"),
        ({"use_mpi": True, "min_num_proc": 1}, "needs the built-in launcher"),
        ({"num_proc": None}, "num_proc is not set"),
        ({"num_proc": 0}, "num_proc=0 is not a whole number, 1 or more"),
        ({"command": None}, "neither command nor run_func is set"),
        ({"num_proc": 3, "hosts": "localhost:2"}, "Requested more processes"),
        ({"cycle_time_ms": -1}, "HOROVOD_CYCLE_TIME='-1' is not accepted"),
    ],
)
def test_what_cannot_be_used_is_an_error(given: dict[str, Any], message: str) -> None:
    args = _HorovodArgs()
    args.command = ["true"]
    for name, value in given.items():
        setattr(args, name, value)
    with pytest.raises(ValueError, match=message):
        _run(args)


def test_mpi_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    args = _HorovodArgs()
    args.use_mpi = True
    for run_func, command in ((None, ["true"]), (os.getpid, None)):
        args.run_func, args.command = run_func, command
        with pytest.raises(ValueError, match="there is no mpirun on PATH"):
            _run(args)


def test_a_controller_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def choose(*, gloo: bool = False, mpi: bool = False, jsrun: bool = False) -> list[str]:
        called.clear()
        run_controller(
            gloo, lambda: called.append("gloo"),
            mpi, lambda: called.append("mpi"),
            jsrun, lambda: called.append("jsrun"),
            None,
        )  # fmt: skip
        return called

    assert choose() == ["gloo"]
    assert choose(gloo=True, mpi=True) == ["gloo"]
    with pytest.raises(ValueError, match="does not start jsrun"):
        choose(jsrun=True)
    monkeypatch.setattr("horovod.common.util.mpi_built", lambda: True)
    assert choose(mpi=True) == ["mpi"]
    monkeypatch.setattr("horovod.common.util.mpi_built", lambda: False)
    with pytest.raises(ValueError, match="MPI is asked for, but none opens here"):
        choose(mpi=True)


def test_the_build_is_checked_by_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    check_build(False)  # noqa: FBT003 - Horovod's signature
    assert "Available Frameworks:" in capfd.readouterr().out
