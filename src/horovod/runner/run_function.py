"""`horovod.run`: a Python function on all ranks, as `horovodrun` runs a program."""
# ruff: noqa: FBT001 - Horovod's signature

import argparse
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horovod._pickling import dump
from horovod.runner import parcels
from horovod.runner.arguments import is_elastic
from horovod.runner.job import FAILED
from horovod.runner.launch import start
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.run_task import FUNCTION, result_of

_ENTRY = ("-m", "horovod.runner.run_task")


class _HorovodArgs(argparse.Namespace):
    """What the command line would have said; callers in the field set attributes one by one."""

    def __init__(self, **given: Any) -> None:
        defaults = dict.fromkeys(
            (
                "np", "min_np", "max_np", "slots_per_host", "elastic_timeout", "reset_limit",
                "blacklist_cooldown_range", "hosts", "hostfile", "host_discovery_script",
                "start_timeout", "ssh_port", "ssh_identity_file", "output_filename",
            )
        )  # fmt: skip
        super().__init__(
            **{
                **defaults,
                "nics": [],
                "verbose": False,
                "prefix_output_with_timestamp": False,
                "check_build": False,
                "mpi": False,
                "mpi_args": None,
                "binding_args": None,
                "command": [],
                "variables": {},
                **given,
            }
        )


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
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,  # noqa: ARG001 - nothing is cached between runs
    output_filename: str | None = None,
    verbose: bool | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    *,
    host_discovery_script: str | None = None,
    network_interfaces: str | None = None,
) -> list[Any]:
    """Calls a function on all ranks, as the program of a job of its own.

    Args:
        func: whatever cloudpickle (or pickle, where that is not installed) can serialise; it
            travels, as results do, through the job's authenticated store.
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
        executable: the Python to run; by default this one.
        np: deprecated, use `num_proc`.
        min_np: deprecated, use `min_num_proc`.
        max_np: deprecated, use `max_num_proc`.
        host_discovery_script: prints the hosts that there are; makes the job elastic.
        network_interfaces: names of interfaces with commas between them.

    Returns:
        What the function returned, by rank; in an elastic job of the first `min_num_proc` ranks.

    Raises:
        ValueError: the arguments contradict each other.
        MpirunError: MPI is asked for, and cannot start the job.
        RuntimeError: a rank failed; the message says which.
    """
    if hosts is not None and hostfile is not None:
        raise ValueError("Argument hosts and hostfile only allow one provided.")
    if use_gloo and use_mpi:
        raise ValueError("Argument use_gloo and use_mpi only allow one set True.")
    if mpi_args and not use_mpi:
        warnings.warn("Argument mpi_args has no effect without use_mpi=True.", stacklevel=2)
    interfaces = _renamed(
        "network_interface", "network_interfaces", network_interface, network_interfaces
    )
    least = _renamed("min_np", "min_num_proc", min_np, min_num_proc)
    settings = _HorovodArgs(
        np=_renamed("np", "num_proc", np, num_proc) or least or 1,
        min_np=least,
        max_np=_renamed("max_np", "max_num_proc", max_np, max_num_proc),
        slots_per_host=slots,
        reset_limit=reset_limit,
        blacklist_cooldown_range=cooldown_range,
        hosts=hosts,
        hostfile=hostfile,
        host_discovery_script=host_discovery_script,
        start_timeout=start_timeout,
        ssh_port=ssh_port,
        ssh_identity_file=ssh_identity_file,
        output_filename=output_filename,
        verbose=bool(verbose),
        mpi=bool(use_mpi),
        mpi_args=mpi_args,
        nics=[name.strip() for name in (interfaces or "").split(",") if name.strip()],
        command=[executable or sys.executable, *_ENTRY],
    )
    if use_mpi and is_elastic(settings):
        raise ValueError("An elastic job needs the built-in launcher: leave out use_mpi.")
    exchange = _Exchange(dump((func, tuple(args), dict(kwargs or {}))))
    code = start(settings, exchange)
    if code != 0:
        raise RuntimeError(
            f"horovod.run: the job ended with code {code}."
            if exchange.first_failure is None
            else FAILED.format(name=exchange.first_failure, code=code)
        )
    results = exchange.results()
    return results if least is None else results[:least]


class _Exchange:
    """What goes into the job's store before it starts, and what comes out when it has ended."""

    def __init__(self, parcel: bytes) -> None:
        self._parcel = parcel
        self._results: list[bytes] = []
        self.first_failure: str | None = None

    def before(self, store: RendezvousServer) -> None:
        """Offers the function."""
        for key, value in parcels.pack(FUNCTION, self._parcel):
            store.put(key, value)

    def after(self, store: RendezvousServer, failed: str | None) -> None:
        """Takes the results."""
        self.first_failure = failed
        while (found := parcels.unpack(result_of(len(self._results)), store.find)) is not None:
            self._results.append(found)

    def results(self) -> list[Any]:
        """By rank."""
        return [pickle.loads(result) for result in self._results]  # noqa: S301 - members of the job alone reach the store
