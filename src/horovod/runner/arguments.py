"""The command line of `horovodrun`: Horovod's flags, and a refusal of those not real yet."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from horovod import _installation
from horovod.runner.argument_values import COUNT, POSITIVE, SECONDS, elastic_contradiction
from horovod.runner.command_line import command_of, split_words
from horovod.runner.config_file import ConfigFileError, read_flags
from horovod.runner.streams import say
from horovod.runner.variable_flags import add_variable_flags

DESCRIPTION = "Starts the ranks of a job on this host or, over ssh, on several."
EPILOG = """\
examples:
  horovodrun -np 4 python train.py
  horovodrun -np 8 -H node-1:4,node-2:4 python train.py
  horovodrun --check-build
"""

USAGE_ERROR = 2  # exit code

# Horovod's flags that this version refuses, so that none is ignored silently.
REFUSED_FLAGS = {
    "--jsrun": "cannot be used: this build does not start jsrun",
}


class _Parser(argparse.ArgumentParser):
    """Tells mistakes in two lines; of all flags the usage is longer than a screen is high."""

    def error(self, message: str) -> NoReturn:
        usage = f"usage: {self.prog} -np N [flags] command ...; --help tells the flags"
        self.exit(USAGE_ERROR, f"{usage}\n{self.prog}: error: {message}\n")


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


def _warn(text: str) -> None:
    say(f"horovodrun: warning: {text}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _add_elastic(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add(
        "--min-np",
        "--min-num-proc",
        dest="min_num_proc",
        type=POSITIVE,
        metavar="N",
        help="go on while there are so many ranks (default: -np)",
    )
    add(
        "--max-np",
        "--max-num-proc",
        dest="max_num_proc",
        type=POSITIVE,
        metavar="N",
        help="take no more ranks than this (default: as many as there are slots)",
    )
    add(
        "--slots-per-host",
        dest="slots",
        type=POSITIVE,
        metavar="N",
        help="slots of hosts that the discovery script prints without a number",
    )
    add(
        "--elastic-timeout",
        type=SECONDS,
        metavar="S",
        help="seconds to form the job anew (HOROVOD_ELASTIC_TIMEOUT, else 600)",
    )
    add("--reset-limit", type=COUNT, metavar="N", help="form it anew so often at most")
    add(
        "--blacklist-cooldown-range",
        dest="cooldown_range",
        type=SECONDS,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="leave a host out for MIN seconds after a failure, twice as long each time, up to MAX"
        " (default: for good)",
    )


def make_parser() -> argparse.ArgumentParser:
    """The parser of `horovodrun`."""
    parser = _Parser(
        prog="horovodrun",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("-v", "--version", action="version", version=_installation.version())
    add("-np", "--num-proc", type=POSITIVE, metavar="N", help="number of ranks")
    add(
        "-cb",
        "--check-build",
        action="store_true",
        help="show what is built in, what loads here and which variant is installed; start nothing",
    )
    add("--json", action="store_true", help="with --check-build: the same for machines")
    add(
        "--start-timeout",
        type=SECONDS,
        metavar="S",
        help="seconds for other hosts to answer, and for all ranks to find each other"
        " (HOROVOD_START_TIMEOUT, else 100 and 30)",
    )
    add(
        "--network-interfaces",
        "--network-interface",
        dest="nics",
        type=_names,
        action="extend",
        metavar="NIC[,NIC]",
        help="network interfaces to use; on every host, the first one that it has carries"
        " the ranks' connections",
    )
    add(
        "--output-filename",
        metavar="DIR",
        help="keep each rank's output in DIR/rank.<n>/stdout and DIR/rank.<n>/stderr as well;"
        " with --mpi where Open MPI puts it: 4 below DIR/1, and 5 into DIR/rank.<job>.<n>.out and"
        " .err in place of the terminal",
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
    remote.add_argument("-p", "--ssh-port", type=POSITIVE, metavar="PORT", help="of the hosts")
    remote.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key")
    hosts = parser.add_argument_group("hosts").add_mutually_exclusive_group()
    hosts.add_argument("-H", "--hosts", metavar="HOST:N,...", help="hosts and their slots")
    hosts.add_argument(
        "-hostfile", "--hostfile", metavar="FILE", help="lines of `<host> slots=<n>`"
    )
    hosts.add_argument(
        "--host-discovery-script",
        metavar="FILE",
        help="prints lines of `<host>:<slots>` for the hosts that there are; asked every second",
    )
    _add_elastic(parser.add_argument_group("elastic"))
    group = parser.add_argument_group("controller")
    controller = group.add_mutually_exclusive_group()
    controller.add_argument(
        "--gloo",
        dest="use_gloo",
        action="store_true",
        help="the built-in launcher, without MPI (the default)",
    )
    controller.add_argument(
        "--mpi", dest="use_mpi", action="store_true", help="let the mpirun on PATH start the ranks"
    )
    group.add_argument(
        "--mpi-args", metavar="ARGS", help="with --mpi: more words for mpirun's command line"
    )
    group.add_argument(
        "--binding-args",
        metavar="ARGS",
        help="with --mpi: how mpirun binds ranks to cores (default: not at all)",
    )
    add(
        "--config-file",
        metavar="FILE",
        help="settings in Horovod's YAML sections (params, timeline, ...); flags here come first",
    )
    add_variable_flags(parser)
    for flag, reason in REFUSED_FLAGS.items():
        add(flag, action=_Refusal, dest=argparse.SUPPRESS, reason=reason)
    # What callers of `launch._run` set, and no flag says.
    parser.set_defaults(run_func=None, executable=None, use_jsrun=False)
    add("command", nargs=argparse.REMAINDER, metavar="command ...", help="what each rank runs")
    return parser


def is_elastic(parsed: argparse.Namespace) -> bool:
    """Whether ranks may come and go."""
    return parsed.host_discovery_script is not None or parsed.min_num_proc is not None


def _warn_of_idle(flags: Mapping[str, Any], needed: str) -> None:
    """Says of flags that nothing looks at them, as nothing does in Horovod."""
    for flag, value in flags.items():
        if value is not None:
            _warn(f"{flag} has no effect without {needed}")


def _check_elastic(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    if parsed.host_discovery_script is None:
        _warn_of_idle({"--slots-per-host": parsed.slots}, "--host-discovery-script")
    if not is_elastic(parsed):
        _warn_of_idle(
            {
                "--max-np": parsed.max_num_proc,
                "--elastic-timeout": parsed.elastic_timeout,
                "--reset-limit": parsed.reset_limit,
                "--blacklist-cooldown-range": parsed.cooldown_range,
            },
            "--min-np or --host-discovery-script, which make a job elastic",
        )
        return
    if parsed.num_proc is None:
        parsed.num_proc = parsed.min_num_proc
    if parsed.num_proc is not None:
        wrong = elastic_contradiction(parsed, "--min-np", "-np", "--max-np")
        if wrong is not None:
            parser.error(wrong)
    cooldown = parsed.cooldown_range
    if cooldown is not None and cooldown[0] > cooldown[1]:
        parser.error("--blacklist-cooldown-range: MIN is above MAX")


def _less_important(flags: Sequence[str], given: argparse.Namespace) -> list[str]:
    """The file's flags, less those that contradict the controller of the command line."""
    contradicting = {"--mpi", "--gloo", "--jsrun"} if given.use_mpi or given.use_gloo else set()
    if given.use_gloo:
        contradicting |= {"--mpi-args", "--binding-args"}
    return [flag for flag in flags if flag.partition("=")[0] not in contradicting]


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line; ends the process with code 2 when it is wrong."""
    parser = make_parser()
    own, command = split_words(parser, sys.argv[1:] if arguments is None else arguments)
    parsed = parser.parse_args(own)
    if parsed.config_file is not None:
        try:
            said = read_flags(parsed.config_file)
        except ConfigFileError as error:
            parser.error(f"--config-file {parsed.config_file}: {error}")
        for line in said.passed_over:
            _warn(f"--config-file {parsed.config_file}: {line}; it is passed over")
        parsed = parser.parse_args([*_less_important(said.flags, parsed), *own])
    parsed.command = command_of([*parsed.command, *command])
    if not parsed.use_mpi:
        idle = {"--mpi-args": parsed.mpi_args, "--binding-args": parsed.binding_args}
        _warn_of_idle(idle, "--mpi")
    if parsed.use_mpi and is_elastic(parsed):
        parser.error("an elastic job needs the built-in launcher; leave out --mpi")
    if parsed.json and not parsed.check_build:
        parser.error("--json goes with --check-build")
    if not parsed.check_build:
        _check_elastic(parser, parsed)
        if parsed.num_proc is None:
            parser.error("the following arguments are required: -np/--num-proc")
        if not parsed.command:
            parser.error("there is no command to run, as in: horovodrun -np 2 python train.py")
    return parsed
