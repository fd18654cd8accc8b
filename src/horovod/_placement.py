"""Which rank this process is and how it reaches the others, as the launcher's environment says."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from horovod import _chosen_settings, _settings
from horovod._setting_values import SettingError


@dataclass(frozen=True)
class Placement:
    """This process among the ranks of its job.

    Attributes:
        rendezvous: "address:port" of the launcher's store, or several with commas between them, of
            which the first that answers is used; "" for a single process.
        secret: what authenticates the job's members; empty for a single process.
        timeout: seconds to wait for the other ranks.
        heartbeat_timeout: seconds after which a silent rank counts as lost; 0 for never.
        hierarchical_allreduce: whether ranks reduce inside their hosts first.
        hierarchical_allgather: likewise.
        control_fanout: how many ranks of its host, and hosts, one rank hears in agreeing; 0 if
            rank 0 hears all, None for what suits their number.
        fusion_bytes: up to which small tensors are put together; 0 for never.
        fuse_groups: whether that is done across groups too.
        mpi_data: whether MPI may move data, in a job that it has started.
        cache_capacity: how many operations are asked for by number once they are known.
        gather_time: seconds that a request which nobody waits for may stay, so that others travel
            with it; None for what suits the ranks' cores.
        dynamic_process_sets: whether they may be added and removed after `init()`.
        stall_warning: seconds until rank 0 names the ranks that others wait for; 0 for never.
        stall_shutdown: seconds until the job ends for it; 0 for never.
        meeting: tells apart jobs that share a store; "" for the launcher's.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str
    rendezvous: str
    secret: bytes
    transport: str
    mpi_data: bool
    interface: str
    timeout: float
    heartbeat_timeout: float
    hierarchical_allreduce: bool
    hierarchical_allgather: bool
    control_fanout: int | None
    fusion_bytes: int
    fuse_groups: bool
    cache_capacity: int
    gather_time: float | None
    dynamic_process_sets: bool
    stall_warning: float
    stall_shutdown: float
    meeting: str = ""


def store_endpoints(addresses: str, port: int) -> str:
    """Addresses with a port: "10.0.0.1,fd00::1" becomes "10.0.0.1:9,[fd00::1]:9"."""
    bare = (address.strip().removeprefix("[").removesuffix("]") for address in addresses.split(","))
    return ",".join(
        f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address in bare
    )


def _read_transport(environment: Mapping[str, str]) -> str:
    """What moves the bytes: Horovod has a variable for it, this library one with more choices."""
    transport = _settings.TRANSPORT.read(environment)
    operations = _settings.CPU_OPERATIONS.read(environment)
    if operations == "ccl":  # which describe_unused says something about
        operations = "auto"
    if _chosen_settings.wishes_for_mpi(environment):
        return "mpi"
    if (operations == "mpi") != (transport == "mpi") and "auto" not in (operations, transport):
        raise SettingError(
            f"{_settings.CPU_OPERATIONS.name}={operations} and"
            f" {_settings.TRANSPORT.name}={transport} contradict each other; leave one of them out"
        )
    return transport


def without_mpi(placement: Placement, environment: Mapping[str, str]) -> Placement:
    """The placement of a rank that has met the others without MPI.

    HOROVOD_CPU_OPERATIONS=mpi chooses among what a build of Horovod can do, and so says nothing
    there; describe_unused tells. HOROVOD_TRANSPORT=mpi stays, and is refused when the ranks meet.
    """
    if not _chosen_settings.wishes_for_mpi(environment):
        return placement
    return dataclasses.replace(placement, transport="auto")


def read_placement(environment: Mapping[str, str]) -> Placement:
    """Reads and checks what the launcher put into the environment.

    Without any of it the process is alone: rank 0 of 1.

    Raises:
        SettingError: a value is not accepted, or the values contradict each other.
    """
    _settings.CONTROLLER.read(environment)
    size = _settings.SIZE.read(environment)
    if size > 1 and _settings.RANK.name not in environment:
        raise SettingError(
            f"HOROVOD_SIZE={size} is set but HOROVOD_RANK is not; start the ranks with horovodrun"
        )
    pairs = (
        (_settings.RANK, _settings.SIZE),
        (_settings.LOCAL_RANK, _settings.LOCAL_SIZE),
        (_settings.CROSS_RANK, _settings.CROSS_SIZE),
    )
    for index, count in pairs:
        if index.read(environment) >= count.read(environment):
            raise SettingError(
                f"{index.name}={index.read(environment)} must be below"
                f" {count.name}={count.read(environment)}"
            )
    address = _settings.RENDEZVOUS_ADDRESS.read(environment)
    port = _settings.RENDEZVOUS_PORT.read(environment)
    secret = _settings.SECRET.read(environment)
    if size > 1:
        needed = (
            (_settings.RENDEZVOUS_ADDRESS.name, address),
            (_settings.RENDEZVOUS_PORT.name, port),
            (_settings.SECRET.name, secret),
        )
        missing = [name for name, value in needed if not value]
        if missing:
            raise SettingError(
                f"HOROVOD_SIZE={size} is set but {', '.join(missing)} is not; start the ranks with"
                " horovodrun"
            )
    stall_warning, stall_shutdown = _chosen_settings.stall_times(environment)
    return Placement(
        rank=_settings.RANK.read(environment),
        size=size,
        local_rank=_settings.LOCAL_RANK.read(environment),
        local_size=_settings.LOCAL_SIZE.read(environment),
        cross_rank=_settings.CROSS_RANK.read(environment),
        cross_size=_settings.CROSS_SIZE.read(environment),
        host=_settings.HOSTNAME.read(environment),
        rendezvous=store_endpoints(address, port) if size > 1 else "",
        secret=secret if size > 1 else b"",
        transport=_read_transport(environment),
        mpi_data=_settings.CPU_OPERATIONS.read(environment) != "gloo",
        interface=_settings.INTERFACE.read(environment),
        timeout=_chosen_settings.start_timeout(environment),
        heartbeat_timeout=_settings.HEARTBEAT_TIMEOUT.read(environment),
        hierarchical_allreduce=_settings.HIERARCHICAL_ALLREDUCE.read(environment),
        hierarchical_allgather=_settings.HIERARCHICAL_ALLGATHER.read(environment),
        control_fanout=_chosen_settings.control_fanout(environment),
        fusion_bytes=_settings.FUSION_THRESHOLD.read(environment),
        fuse_groups=not _settings.DISABLE_GROUP_FUSION.read(environment),
        cache_capacity=_settings.CACHE_CAPACITY.read(environment),
        gather_time=_chosen_settings.gather_time(environment),
        dynamic_process_sets=_settings.DYNAMIC_PROCESS_SETS.read(environment),
        stall_warning=stall_warning,
        stall_shutdown=stall_shutdown,
    )
