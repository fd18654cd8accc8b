"""`horovodrun`: reads the command line and runs the job; and the same for other launchers."""

import argparse
import sys
from typing import Any

from horovod._setting_values import SettingError
from horovod.runner.argument_values import require_values
from horovod.runner.arguments import USAGE_ERROR, make_parser, parse_args
from horovod.runner.check_build import check_build
from horovod.runner.children import ends_are_told
from horovod.runner.exchange import FirstFailure
from horovod.runner.function_job import call_on_ranks
from horovod.runner.hosts import HostsError
from horovod.runner.init_process import below_init
from horovod.runner.job_start import CurrentFolderError, is_gloo_used, run_controller, start
from horovod.runner.mpi_run import MpirunError
from horovod.runner.network import NetworkError
from horovod.runner.output import OutputError
from horovod.runner.streams import say, take_any_text
from horovod.runner.threads import ThreadError

__all__ = [
    "check_build",
    "is_gloo_used",
    "make_parser",
    "parse_args",
    "run_commandline",
    "run_controller",
]


def _run(args: argparse.Namespace) -> list[Any] | None:
    """Runs the job of a launcher that has made its arguments itself, as Horovod's does.

    Args:
        args: as `parse_args` returns them, or a `_HorovodArgs`; `run_func`, if there is one, is
            called on all ranks in place of `command`.

    Returns:
        What `run_func` returned, by rank; None where a command was run. With MPI, a command's
        mpirun takes the place of this process.

    Raises:
        KeyboardInterrupt: this process has got SIGINT.
        RuntimeError: a rank failed, or ended without a result, the message says which; or nobody
            would be told how ranks end.
        ValueError: the arguments cannot be used.
        OSError: there is no address at which the other hosts reach this one, no room for the
            output's copies, or the current folder is gone.
    """
    if args.check_build:
        sys.exit(check_build(args.verbose))
    if args.num_proc is None:
        raise ValueError("num_proc is not set: it is the number of ranks")
    require_values(args)
    with ends_are_told():
        return _run_checked(args)


def _run_checked(args: argparse.Namespace) -> list[Any] | None:
    if args.run_func is not None:
        return call_on_ranks(args)
    if not args.command:
        raise ValueError("neither command nor run_func is set: there is nothing to run")
    built_in = is_gloo_used(args.use_gloo, args.use_mpi, args.use_jsrun)
    failure = FirstFailure()
    failure.require_success(start(args, failure if built_in else None))
    return None


def _refuse(reason: str) -> int:
    say(f"horovodrun: error: {reason}")
    return USAGE_ERROR


def run_commandline() -> int:
    """The `horovodrun` command; returns its exit code."""
    take_any_text()
    with ends_are_told():
        return below_init(lambda: _run_command(parse_args()))


def _run_command(args: argparse.Namespace) -> int:
    if args.check_build:
        return check_build(args.verbose, as_json=args.json)
    try:
        return start(args)
    except (
        CurrentFolderError,
        HostsError,
        MpirunError,
        NetworkError,
        OutputError,
        SettingError,
        ThreadError,
    ) as error:
        return _refuse(str(error))


if __name__ == "__main__":
    sys.exit(run_commandline())
