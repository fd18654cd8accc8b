"""`horovodrun`: reads the command line and runs the job."""

import argparse
import os
from pathlib import Path

from horovod import _settings
from horovod._setting_values import SettingError
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
from horovod.runner.job import Exchange, Job, run_job
from horovod.runner.mpi_run import MpiJob, MpirunError, exec_mpirun, run_mpirun
from horovod.runner.network import NetworkError
from horovod.runner.output import OutputError
from horovod.runner.ssh import SshOptions
from horovod.runner.streams import say
from horovod.runner.threads import ThreadError

__all__ = ["is_gloo_used", "make_parser", "parse_args", "run_commandline", "start"]

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


def start(args: argparse.Namespace, exchange: Exchange | None = None) -> int:
    """Runs the job that some arguments describe; returns its exit code.

    Args:
        args: as `parse_args` returns them.
        exchange: what else uses the job's store.

    Raises:
        HostsError: the hosts cannot be used.
        MpirunError: MPI is asked for and cannot start the job.
        NetworkError: there is no address at which the other hosts reach this one.
        OutputError: the output's copies cannot be written.
        SettingError: an environment variable is not accepted.
        ThreadError: there is no room for the launcher's own threads.
        OSError: the current folder is gone.
    """
    if args.mpi:
        mpi_job = _make_mpi_job(args)
        if exchange is not None:
            return run_mpirun(mpi_job, exchange)
        exec_mpirun(mpi_job)
    elastic = is_elastic(args)
    job = Job(
        arguments=args.command,
        slots=() if elastic else get_host_assignments(_read_hosts(args), args.np),
        environment={**os.environ, **args.variables},
        directory=Path.cwd(),
        ssh=SshOptions(args.ssh_port, args.ssh_identity_file),
        interfaces=args.nics,
        output_directory=Path(args.output_filename) if args.output_filename else None,
        timestamp=args.prefix_output_with_timestamp,
        start_timeout=args.start_timeout,
        verbose=args.verbose,
    )
    if elastic:
        return run_elastic_job(_make_elastic(args, job), exchange)
    return run_job(job, exchange)


def _run(args: argparse.Namespace) -> int:
    """Runs what `parse_args` read; returns the exit code."""
    if args.check_build:
        return check_build(verbose=args.verbose, as_json=args.json)
    try:
        Path.cwd()
    except OSError as error:
        return _refuse(f"the current folder cannot be used: {error.strerror}")
    try:
        return start(args)
    except (HostsError, MpirunError, NetworkError, OutputError, SettingError, ThreadError) as error:
        return _refuse(str(error))


def is_gloo_used(
    use_gloo: bool | None = None,  # noqa: FBT001 - Horovod's signature
    use_mpi: bool | None = None,  # noqa: FBT001 - as above
    use_jsrun: bool | None = None,  # noqa: FBT001 - as above
) -> bool:
    """Whether the built-in controller serves a job: unless another one is asked for."""
    return bool(use_gloo) or not (use_mpi or use_jsrun)


def _make_mpi_job(args: argparse.Namespace) -> MpiJob:
    hosts = _read_hosts(args) if args.hosts is not None or args.hostfile is not None else []
    if hosts:
        get_host_assignments(hosts, args.np)  # are there enough slots?
    return MpiJob(
        command=args.command,
        np=args.np,
        hosts=hosts,
        environment={**os.environ, **args.variables},
        ssh=SshOptions(args.ssh_port, args.ssh_identity_file),
        interfaces=args.nics,
        mpi_args=args.mpi_args or "",
        binding_args=args.binding_args or "",
        output_directory=Path(args.output_filename) if args.output_filename else None,
        timestamp=args.prefix_output_with_timestamp,
        start_timeout=args.start_timeout,
        verbose=args.verbose,
    )


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
    say(f"horovodrun: error: {reason}")
    return USAGE_ERROR


def run_commandline() -> int:
    """The `horovodrun` command; returns its exit code."""
    return _run(parse_args())
