"""Which worker gets which rank when a job is formed anew: pure functions over what is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from horovod.runner.hosts import HostInfo, SlotInfo, get_host_assignments


@dataclass(frozen=True)
class Seat:
    """A worker, and where it was before.

    Attributes:
        rank: in the last round that it took part in; None if it is new.
        local_rank: likewise.
    """

    worker: int
    host: str
    rank: int | None = None
    local_rank: int | None = None

    @property
    def order(self) -> tuple[float, int]:
        """Who has been there comes first, by rank; then the others, by their age."""
        return (float("inf") if self.rank is None else self.rank, self.worker)


@dataclass(frozen=True)
class Plan:
    """Who stays and how many have to be started.

    Attributes:
        hosts: in the order of their ranks, with the number of workers that each should have.
        staying: workers, per host those with the lowest ranks first.
        vacancies: hosts on which workers are missing, and how many.
    """

    hosts: Mapping[str, int]
    staying: Mapping[str, Sequence[Seat]]
    vacancies: Mapping[str, int]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(self.hosts.values())


def make_plan(usable: Mapping[str, int], present: Sequence[Seat], limit: int | None) -> Plan:
    """Decides how many workers each host should have.

    Hosts with the lowest ranks come first, so that rank 0 stays with a worker that has the state.

    Args:
        usable: hosts and their slots.
        present: workers that run.
        limit: most ranks; None for as many as there are slots.
    """
    by_host: dict[str, list[Seat]] = {}
    for seat in sorted(present, key=lambda seat: seat.order):
        by_host.setdefault(seat.host, []).append(seat)
    known = [host for host in by_host if host in usable]
    order = [*known, *(host for host in usable if host not in by_host)]
    hosts: dict[str, int] = {}
    left = sum(usable.values()) if limit is None else limit
    for host in order:
        count = min(usable[host], left)
        if count > 0:
            hosts[host] = count
            left -= count
    staying = {host: by_host.get(host, [])[:count] for host, count in hosts.items()}
    vacancies = {
        host: count - len(staying[host])
        for host, count in hosts.items()
        if count > len(staying[host])
    }
    return Plan(hosts, staying, vacancies)


def assign(plan: Plan) -> dict[int, SlotInfo]:
    """Gives each staying worker of a plan without vacancies its place.

    Workers keep their local rank where they can, and with it what they have bound to it; but a
    worker that has the state becomes rank 0.
    """
    slots = get_host_assignments(
        [HostInfo(host, count) for host, count in plan.hosts.items()], plan.size
    )
    by_place = {(slot.hostname, slot.local_rank): slot for slot in slots}
    places: dict[int, SlotInfo] = {}
    for position, (host, seats) in enumerate(plan.staying.items()):
        local = _local_ranks(seats, plan.hosts[host], first_host=position == 0)
        places.update({worker: by_place[host, rank] for worker, rank in local.items()})
    return places


def _local_ranks(seats: Sequence[Seat], count: int, *, first_host: bool) -> dict[int, int]:
    taken: dict[int, int] = {}  # local rank to worker
    for seat in seats:
        if seat.local_rank is not None and seat.local_rank < count and seat.local_rank not in taken:
            taken[seat.local_rank] = seat.worker
    if first_host and seats and 0 not in taken:
        taken = {rank: worker for rank, worker in taken.items() if worker != seats[0].worker}
        taken[0] = seats[0].worker
    free = iter([rank for rank in range(count) if rank not in taken])
    seated = set(taken.values())
    taken.update({next(free): seat.worker for seat in seats if seat.worker not in seated})
    return {worker: rank for rank, worker in taken.items()}
