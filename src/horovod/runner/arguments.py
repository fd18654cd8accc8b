"""The command line of `horovodrun`: Horovod's flags, and a refusal of those not real yet."""

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

from horovod import _installation

DESCRIPTION = "Starts the ranks of a job on this host or, over ssh, on several."
EPILOG = """\
examples:
  horovodrun -np 4 python train.py
  horovodrun -np 8 -H node-1:4,node-2:4 python train.py
  horovodrun --check-build
"""

# Horovod's flags that this version refuses, so that none is ignored silently.
UNSUPPORTED_FLAGS = (
    "--config-file",
    "--fusion-threshold-mb",
    "--cycle-time-ms",
    "--cache-capacity",
    "--hierarchical-allreduce",
    "--no-hierarchical-allreduce",
    "--hierarchical-allgather",
    "--no-hierarchical-allgather",
    "--torus-allreduce",
    "--no-torus-allreduce",
    "--autotune",
    "--no-autotune",
    "--autotune-log-file",
    "--autotune-warmup-samples",
    "--autotune-steps-per-sample",
    "--autotune-bayes-opt-max-samples",
    "--autotune-gaussian-process-noise",
    "--min-np",
    "--min-num-proc",
    "--max-np",
    "--max-num-proc",
    "--slots-per-host",
    "--elastic-timeout",
    "--reset-limit",
    "--blacklist-cooldown-range",
    "--host-discovery-script",
    "--timeline-filename",
    "--timeline-mark-cycles",
    "--no-timeline-mark-cycles",
    "--no-stall-check",
    "--stall-check",
    "--stall-check-warning-time-seconds",
    "--stall-check-shutdown-time-seconds",
    "--mpi-threads-disable",
    "--no-mpi-threads-disable",
    "--mpi-args",
    "--tcp",
    "--binding-args",
    "--num-nccl-streams",
    "--thread-affinity",
    "--gloo-timeout-seconds",
    "--log-level",
    "--log-without-timestamp",
    "--log-with-timestamp",
    "--log-hide-timestamp",
    "--no-log-hide-timestamp",
    "--jsrun",
)


class _Refusal(argparse.Action):
    """Refuses a flag, whatever its arguments."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, reason: str, default: Any = None
    ) -> None:
        super().__init__(option_strings, dest, nargs="?", default=default, help=argparse.SUPPRESS)
        self._reason = reason

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: Any,
        option_string: str | None = None,
    ) -> None:
        parser.error(f"{option_string} {self._reason}")


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def make_parser() -> argparse.ArgumentParser:
    """The parser of `horovodrun`."""
    parser = argparse.ArgumentParser(
        prog="horovodrun",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-v", "--version", action="version", version=_installation.version())
    add("-np", "--num-proc", dest="np", type=_positive, metavar="N", help="number of ranks")
    add(
        "-cb",
        "--check-build",
        action="store_true",
        help="show what is built in, what loads here and which variant is installed; start nothing",
    )
    add("--json", action="store_true", help="with --check-build: the same for machines")
    add(
        "--start-timeout",
        type=_seconds,
        metavar="S",
        help="seconds for all ranks to find each other (HOROVOD_START_TIMEOUT, else 30)",
    )
    add(
        "--network-interfaces",
        "--network-interface",
        dest="nics",
        type=_names,
        action="extend",
        default=[],
        metavar="NIC[,NIC]",
        help="network interfaces to use; the first one carries the ranks' connections",
    )
    add(
        "--output-filename",
        metavar="DIR",
        help="keep each rank's output in DIR/rank.<n>/stdout and DIR/rank.<n>/stderr as well",
    )
    add(
        "-prefix-timestamp",
        "--prefix-output-with-timestamp",
        action="store_true",
        dest="prefix_output_with_timestamp",
        help="put the time before each line of output",
    )
    add("--verbose", action="store_true", help="say what is started where")
    add(
        "--disable-cache",
        action="store_true",
        help="for compatibility: nothing is cached between runs",
    )
    remote = parser.add_argument_group("ssh")
    remote.add_argument("-p", "--ssh-port", type=_positive, metavar="PORT", help="of the hosts")
    remote.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key")
    hosts = parser.add_argument_group("hosts").add_mutually_exclusive_group()
    hosts.add_argument("-H", "--hosts", metavar="HOST:N,…", help="hosts and their slots")
    hosts.add_argument(
        "-hostfile", "--hostfile", metavar="FILE", help="lines of `<host> slots=<n>`"
    )
    controller = parser.add_argument_group("controller")
    controller.add_argument(
        "--gloo", action="store_true", help="the built-in MPI-free controller; always used"
    )
    controller.add_argument(
        "--mpi",
        action=_Refusal,
        dest="mpi",
        default=False,
        reason="cannot be used: MPI is not in this build; leave it out for the built-in controller",
    )
    for flag in UNSUPPORTED_FLAGS:
        add(
            flag,
            action=_Refusal,
            dest=argparse.SUPPRESS,
            reason="is not supported yet by horovod-variants; leave it out",
        )
    add("command", nargs=argparse.REMAINDER, metavar="command …", help="what each rank runs")
    return parser


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line; ends the process with code 2 when it is wrong."""
    parser = make_parser()
    parsed = parser.parse_args(arguments)
    if parsed.command[:1] == ["--"]:
        del parsed.command[0]
    if parsed.json and not parsed.check_build:
        parser.error("--json goes with --check-build")
    if not parsed.check_build:
        if parsed.np is None:
            parser.error("the following arguments are required: -np/--num-proc")
        if not parsed.command:
            parser.error("there is no command to run, as in: horovodrun -np 2 python train.py")
    return parsed
