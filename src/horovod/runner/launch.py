"""`horovodrun`: reads the command line and runs the job."""

import argparse
import os
import sys
from pathlib import Path

from horovod.runner.arguments import make_parser, parse_args
from horovod.runner.check_build import check_build
from horovod.runner.hosts import (
    HostInfo,
    HostsError,
    get_host_assignments,
    parse_hostfile,
    parse_hosts,
)
from horovod.runner.job import Job, run_job
from horovod.runner.network import NetworkError
from horovod.runner.output import OutputError
from horovod.runner.ssh import SshOptions

__all__ = ["make_parser", "parse_args", "run_commandline"]

USAGE_ERROR = 2


def _read_hosts(args: argparse.Namespace) -> list[HostInfo]:
    if args.hosts is not None:
        return parse_hosts(args.hosts)
    if args.hostfile is not None:
        try:
            text = Path(args.hostfile).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise HostsError(f"cannot read the host file {args.hostfile}: {error}") from None
        return parse_hostfile(text, args.hostfile)
    return [HostInfo("localhost", args.np)]


def _run(args: argparse.Namespace) -> int:
    """Runs what `parse_args` read; returns the exit code."""
    if args.check_build:
        return check_build(verbose=args.verbose, as_json=args.json)
    try:
        directory = Path.cwd()
    except OSError as error:
        return _refuse(f"the current folder cannot be used: {error.strerror}")
    try:
        slots = get_host_assignments(_read_hosts(args), args.np)
        job = Job(
            arguments=args.command,
            slots=slots,
            environment=dict(os.environ),
            directory=directory,
            ssh=SshOptions(args.ssh_port, args.ssh_identity_file),
            interfaces=args.nics,
            output_directory=Path(args.output_filename) if args.output_filename else None,
            timestamp=args.prefix_output_with_timestamp,
            start_timeout=args.start_timeout,
            verbose=args.verbose,
        )
        return run_job(job)
    except (HostsError, NetworkError, OutputError) as error:
        return _refuse(str(error))


def _refuse(reason: str) -> int:
    sys.stderr.write(f"horovodrun: error: {reason}\n")
    return USAGE_ERROR


def run_commandline() -> int:
    """The `horovodrun` command; returns its exit code."""
    return _run(parse_args())
