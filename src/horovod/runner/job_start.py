"""Starts the job that some arguments describe, through the controller that they ask for."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from horovod import _settings
from horovod._setting_values import SettingError
from horovod._unused_settings import require_accepted
from horovod.runner.arguments import REFUSED_FLAGS, is_elastic
from horovod.runner.elastic.discovery import (
    FixedHosts,
    ForgivingDiscovery,
    HostDiscovery,
    HostDiscoveryScript,
)
from horovod.runner.elastic.job import ElasticJob, run_elastic_job
from horovod.runner.elastic.limits import Limits
from horovod.runner.exchange import Exchange
from horovod.runner.hosts import (
    HostInfo,
    HostsError,
    get_host_assignments,
    parse_hostfile,
    parse_hosts,
)
from horovod.runner.job import Job, run_job
from horovod.runner.mpi_run import MpiJob, exec_mpirun, run_mpirun
from horovod.runner.ssh_options import SshOptions, find_kubexec
from horovod.runner.streams import say
from horovod.runner.variable_flags import variables_of


class CurrentFolderError(OSError):
    """The current folder, where ranks are to run, is gone or closed to this user."""


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        reason = f"the current folder cannot be used: {error.strerror}"
        raise CurrentFolderError(reason) from None


def is_gloo_used(
    use_gloo: bool | None = None,  # noqa: FBT001 - Horovod's signature
    use_mpi: bool | None = None,  # noqa: FBT001 - as above
    use_jsrun: bool | None = None,  # noqa: FBT001 - as above
) -> bool:
    """Whether the built-in controller serves a job: unless another one is asked for."""
    return bool(use_gloo) or not (use_mpi or use_jsrun)


def run_controller(
    use_gloo: bool | None,  # noqa: FBT001 - Horovod's signature
    gloo_run: Callable[[], object],
    use_mpi: bool | None,  # noqa: FBT001 - as above
    mpi_run: Callable[[], object],
    use_jsrun: bool | None,  # noqa: FBT001 - as above
    js_run: Callable[[], object],  # noqa: ARG001 - as above
    verbosity: int | None,  # noqa: ARG001 - as above
) -> None:
    """Calls what stands for the controller that is asked for; without a wish, `gloo_run`.

    Args:
        use_gloo: the built-in controller is asked for.
        gloo_run: starts a job with it.
        use_mpi: MPI is asked for.
        mpi_run: starts a job with it.
        use_jsrun: jsrun is asked for.
        js_run: is not called.
        verbosity: changes nothing.

    Raises:
        ValueError: the controller is not there.
    """
    from horovod.common.util import mpi_built  # noqa: PLC0415 - loads native code

    if is_gloo_used(use_gloo, use_mpi, use_jsrun):
        gloo_run()
    elif not use_mpi:
        raise ValueError(f"use_jsrun {REFUSED_FLAGS['--jsrun']}")
    elif not mpi_built():
        raise ValueError("MPI is asked for, but none opens here; horovodrun --check-build says why")
    else:
        mpi_run()


def start(args: argparse.Namespace, exchange: Exchange | None = None) -> int:
    """Runs the job that some arguments describe; returns its exit code.

    With MPI and without an exchange this process becomes mpirun.

    Args:
        args: as `parse_args` returns them.
        exchange: what else uses the job's store.

    Raises:
        HostsError: the hosts cannot be used.
        MpirunError: MPI is asked for and cannot start the job.
        NetworkError: there is no address at which the other hosts reach this one.
        OutputError: the output's copies cannot be written.
        SettingError: a variable is not accepted.
        ThreadError: there is no room for the launcher's own threads.
        ValueError: the controller that is asked for is not there, or does not serve such a job.
        CurrentFolderError: the current folder is gone.
    """
    directory = _current_folder()
    environment = {**_inherited(os.environ), **variables_of(args)}
    require_accepted(environment)  # before each rank does
    if not is_gloo_used(args.use_gloo, args.use_mpi, args.use_jsrun):
        return _start_mpi(args, environment, exchange)
    elastic = is_elastic(args)
    _require_no_mpi(environment)
    job = Job(
        arguments=args.command,
        slots=() if elastic else get_host_assignments(_read_hosts(args), args.num_proc),
        environment=environment,
        directory=directory,
        ssh=SshOptions(args.ssh_port, args.ssh_identity_file, find_kubexec(os.environ)),
        interfaces=interface_names(args.nics),
        output_directory=Path(args.output_filename) if args.output_filename else None,
        timestamp=bool(args.prefix_output_with_timestamp),
        start_timeout=args.start_timeout,
        verbose=bool(args.verbose),
    )
    if elastic:
        return run_elastic_job(_make_elastic(args, job), exchange)
    return run_job(job, exchange)


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What a job's ranks get of an environment: no place in another job, whose rank may start it.

    Ranks of an elastic job ask their launcher for a place, which no other launcher would answer.
    """
    places = {setting.name for setting in _settings.LAUNCHER_SETTINGS}
    return {name: value for name, value in environment.items() if name not in places}


def _require_no_mpi(environment: Mapping[str, str]) -> None:
    """Looks at what variables want of MPI in a job without it; tells wishes that have no effect.

    Raises:
        SettingError: it cannot be had.
    """
    if _settings.TRANSPORT.read(environment) == "mpi":
        raise SettingError(
            f"{_settings.TRANSPORT.name}=mpi needs ranks that an MPI has started: horovodrun --mpi"
        )
    for setting in (_settings.CONTROLLER, _settings.CPU_OPERATIONS):
        if (wish := setting.read(environment)) not in ("auto", "gloo"):
            say(
                f"horovodrun: warning: {setting.name}={wish} has no effect without --mpi; the ranks"
                " meet through horovodrun itself"
            )


def interface_names(given: str | Iterable[str] | None) -> list[str]:
    """The network interfaces that are meant by one text with commas, or by several texts."""
    if given is None:
        return []
    if isinstance(given, (set, frozenset)):
        given = sorted(given)  # the first one that a host has counts, on every run the same
    texts = [given] if isinstance(given, str) else given
    names = (name.strip() for text in texts for name in text.split(","))
    return list(filter(None, names))


def _read_hosts(args: argparse.Namespace) -> list[HostInfo]:
    if args.hosts is not None:
        return parse_hosts(args.hosts)
    if args.hostfile is not None:
        try:
            text = Path(args.hostfile).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise HostsError(f"cannot read the host file {args.hostfile}: {error}") from None
        return parse_hostfile(text, args.hostfile)
    nodes = os.environ.get("SLURM_JOB_NUM_NODES", "")
    if nodes.isdecimal() and int(nodes) > 1:
        say(
            f"horovodrun: all ranks run on this host, though the Slurm job has {nodes} nodes. To"
            " use all of them, with SLOTS ranks each:"
            " -H $(scontrol show hostnames | sed 's/$/:SLOTS/' | paste -sd,)"
        )
    return [HostInfo("localhost", args.num_proc)]


def _start_mpi(
    args: argparse.Namespace, environment: Mapping[str, str], exchange: Exchange | None
) -> int:
    if not args.use_mpi:
        raise ValueError(f"use_jsrun {REFUSED_FLAGS['--jsrun']}")
    if is_elastic(args):
        raise ValueError("An elastic job needs the built-in launcher: leave out use_mpi.")
    hosts = _read_hosts(args) if args.hosts is not None or args.hostfile is not None else []
    if hosts:
        get_host_assignments(hosts, args.num_proc)  # are there enough slots?
    job = MpiJob(
        command=args.command,
        np=args.num_proc,
        hosts=hosts,
        environment=environment,
        ssh=SshOptions(args.ssh_port, args.ssh_identity_file, find_kubexec(os.environ)),
        interfaces=interface_names(args.nics),
        mpi_args=args.mpi_args or "",
        binding_args=args.binding_args or "",
        output_directory=Path(args.output_filename) if args.output_filename else None,
        timestamp=bool(args.prefix_output_with_timestamp),
        start_timeout=args.start_timeout,
        verbose=bool(args.verbose),
    )
    if exchange is None:
        exec_mpirun(job)
    return run_mpirun(job, exchange)


def _make_elastic(args: argparse.Namespace, job: Job) -> ElasticJob:
    if args.host_discovery_script is not None:
        if not args.host_discovery_script.strip():
            raise HostsError("--host-discovery-script is empty: it names what prints the hosts")
        script = HostDiscoveryScript(args.host_discovery_script, args.slots, guarded=True)
        discovery: HostDiscovery = ForgivingDiscovery(script)
    else:
        discovery = FixedHosts({host.hostname: host.slots for host in _read_hosts(args)})
    least = args.num_proc if args.min_num_proc is None else args.min_num_proc
    limits = Limits(
        start=max(args.num_proc, least),
        least=least,
        most=args.max_num_proc,
        resets=args.reset_limit,
        timeout=args.elastic_timeout or _settings.ELASTIC_TIMEOUT.read(os.environ),
    )
    cooldown = args.cooldown_range
    return ElasticJob(job, discovery, limits, None if cooldown is None else tuple(cooldown))
