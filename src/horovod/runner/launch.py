"""`horovodrun`: reads the command line and runs the job."""

import argparse
import os
import sys
from pathlib import Path

from horovod import _settings
from horovod._settings import SettingError
from horovod.runner.arguments import is_elastic, make_parser, parse_args
from horovod.runner.check_build import check_build
from horovod.runner.elastic.discovery import FixedHosts, HostDiscovery, HostDiscoveryScript
from horovod.runner.elastic.driver import Limits
from horovod.runner.elastic.job import ElasticJob, run_elastic_job
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
        elastic = is_elastic(args)
        job = Job(
            arguments=args.command,
            slots=() if elastic else get_host_assignments(_read_hosts(args), args.np),
            environment=dict(os.environ),
            directory=directory,
            ssh=SshOptions(args.ssh_port, args.ssh_identity_file),
            interfaces=args.nics,
            output_directory=Path(args.output_filename) if args.output_filename else None,
            timestamp=args.prefix_output_with_timestamp,
            start_timeout=args.start_timeout,
            verbose=args.verbose,
        )
        return run_elastic_job(_make_elastic(args, job)) if elastic else run_job(job)
    except (HostsError, NetworkError, OutputError, SettingError) as error:
        return _refuse(str(error))


def _make_elastic(args: argparse.Namespace, job: Job) -> ElasticJob:
    if args.host_discovery_script is not None:
        discovery: HostDiscovery = HostDiscoveryScript(
            args.host_discovery_script, args.slots_per_host
        )
    else:
        discovery = FixedHosts({host.hostname: host.slots for host in _read_hosts(args)})
    limits = Limits(
        start=args.np,
        least=args.np if args.min_np is None else args.min_np,
        most=args.max_np,
        resets=args.reset_limit,
        timeout=args.elastic_timeout or _settings.ELASTIC_TIMEOUT.read(os.environ),
    )
    cooldown = args.blacklist_cooldown_range
    return ElasticJob(job, discovery, limits, None if cooldown is None else tuple(cooldown))


def _refuse(reason: str) -> int:
    sys.stderr.write(f"horovodrun: error: {reason}\n")
    return USAGE_ERROR


def run_commandline() -> int:
    """The `horovodrun` command; returns its exit code."""
    return _run(parse_args())
