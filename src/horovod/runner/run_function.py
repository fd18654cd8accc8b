"""`horovod.run`: a Python function on all ranks, as `horovodrun` runs a program."""
# ruff: noqa: FBT001 - Horovod's signature

import argparse
import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from horovod.runner.argument_values import require_values
from horovod.runner.arguments import make_parser
from horovod.runner.launch import _run


class _HorovodArgs(argparse.Namespace):
    """What the command line says by default; callers in the field set attributes one by one."""

    def __init__(self) -> None:
        super().__init__(**vars(make_parser().parse_args([])))
        self.num_proc = 1
        self.nic = None  # Horovod has it beside `nics`, and does not look at it


def _renamed(old: str, new: str, old_value: Any, new_value: Any) -> Any:
    """The value of an argument that has two names."""
    if old_value is None:
        return new_value
    warnings.warn(
        f"Argument `{old}` of horovod.run is deprecated, use `{new}`",
        DeprecationWarning,
        stacklevel=3,
    )
    return old_value


def _warn_of_idle(needed: str, **arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            warnings.warn(f"Argument {name} has no effect without {needed}.", stacklevel=3)


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[float] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: bool | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | Iterable[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls a function on all ranks, as the program of a job of its own.

    Args:
        func: whatever cloudpickle can serialise; it travels, as results do, through the job's
            authenticated store.
        args: its positional arguments.
        kwargs: its keyword arguments.
        num_proc: number of ranks, 1 by default.
        min_num_proc: makes the job elastic; see `horovodrun --min-np`.
        max_num_proc: of an elastic job; see `--max-np`.
        slots: of hosts that the discovery script prints without a number.
        reset_limit: how often an elastic job is formed anew at most.
        cooldown_range: seconds that a host is left out after a failure, at first and at most.
        hosts: as `host-1:2,host-2:4`.
        hostfile: path of a file with lines of `<host> slots=<n>`.
        host_discovery_script: prints the hosts that there are; makes the job elastic.
        start_timeout: seconds for the ranks to find each other.
        ssh_port: of the other hosts.
        ssh_identity_file: private key for them.
        disable_cache: without effect; nothing is cached.
        output_filename: folder for copies of the ranks' output.
        verbose: say what is started where.
        use_gloo: the built-in controller, which is used unless `use_mpi` is true.
        use_mpi: the ranks are started by the mpirun that is installed.
        mpi_args: words for its command line, in one text.
        network_interface: deprecated, use `network_interfaces`.
        network_interfaces: their names, each by itself or with commas between them; on every host
            the first one that it has is used.
        executable: the Python to run; by default this one.
        np: deprecated, use `num_proc`.
        min_np: deprecated, use `min_num_proc`.
        max_np: deprecated, use `max_num_proc`.

    Returns:
        What the function returned, by rank; in an elastic job of the first `min_num_proc` ranks,
        or `num_proc` where that is not given.

    Raises:
        ValueError: an argument's value is not accepted, or they contradict each other.
        MpirunError: MPI is asked for, and cannot start the job.
        PicklingError: it takes cloudpickle to send the function, which is not installed.
        UnpicklingError: a result comes from another Python (`executable`), and cannot be loaded.
        KeyboardInterrupt: this process has got SIGINT, once the ranks are gone; a handler of the
            caller's own is called then in its place, and one for SIGTERM or SIGHUP.
        RuntimeError: a rank failed, or ended without a result, or a signal has come; the message
            says which.
        OSError: there is no address at which the other hosts reach this one, no room for the
            output's copies, or the current folder is gone.
    """
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    if mpi_args and not use_mpi:
        warnings.warn("Argument mpi_args has no effect without use_mpi=True.", stacklevel=2)
    job = _HorovodArgs()
    job.min_num_proc = _renamed("min_np", "min_num_proc", min_np, min_num_proc)
    job.max_num_proc = _renamed("max_np", "max_num_proc", max_np, max_num_proc)
    fewest = 1 if job.min_num_proc is None else job.min_num_proc
    ranks = _renamed("np", "num_proc", np, num_proc)
    job.num_proc = fewest if ranks is None else ranks
    job.slots = slots
    job.reset_limit = reset_limit
    job.cooldown_range = cooldown_range
    job.hosts = hosts
    job.hostfile = hostfile
    job.host_discovery_script = host_discovery_script
    job.start_timeout = start_timeout
    job.ssh_port = ssh_port
    job.ssh_identity_file = ssh_identity_file
    job.disable_cache = disable_cache
    job.output_filename = output_filename
    job.verbose = verbose
    job.use_gloo = use_gloo
    job.use_mpi = use_mpi
    job.mpi_args = mpi_args
    job.nics = _renamed(
        "network_interface", "network_interfaces", network_interface, network_interfaces
    )
    job.executable = executable
    job.run_func = functools.partial(func, *args, **(kwargs or {}))
    require_values(job)  # before anything is said of those that are idle
    if job.min_num_proc is None and host_discovery_script is None:
        _warn_of_idle(
            "min_num_proc or host_discovery_script, which make a job elastic",
            max_num_proc=job.max_num_proc,
            reset_limit=reset_limit,
            cooldown_range=cooldown_range,
        )
    if host_discovery_script is None:
        _warn_of_idle("host_discovery_script", slots=slots)
    results: list[Any] = _run(job) or []
    return results
