"""Which worker gets which rank when a job is formed anew: pure functions over what is there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from horovod.runner.hosts import HostInfo, SlotInfo, get_host_assignments


@dataclass(frozen=True)
class Seat:
    """A worker, and where it was before.

    Attributes:
        rank: in the last round that it took part in; None if it is new.
        local_rank: likewise.
        since: the first round that it took part in; None if it is new.
    """

    worker: int
    host: str
    rank: int | None = None
    local_rank: int | None = None
    since: int | None = None

    @property
    def order(self) -> tuple[float, float, int]:
        """Who has been there for the most rounds comes first, by rank; new ones last, by their age.

        A worker gets the state in its first round, which may have been broken off before. So it
        comes after those of earlier rounds, from whom it would have got the state.
        """
        never = float("inf")
        return (
            never if self.since is None else self.since,
            never if self.rank is None else self.rank,
            self.worker,
        )


@dataclass(frozen=True)
class Plan:
    """Who stays and how many have to be started.

    Attributes:
        hosts: in the order of their ranks, with the number of workers that each should have.
        staying: workers, per host those with the lowest ranks first.
        vacancies: hosts on which workers are missing, and how many.
        guests: workers that stay only until others have the state from them.
    """

    hosts: Mapping[str, int]
    staying: Mapping[str, Sequence[Seat]]
    vacancies: Mapping[str, int]
    guests: int = 0

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(self.hosts.values())

    @property
    def lasting(self) -> int:
        """Number of ranks without the guests."""
        return self.size - self.guests

    @property
    def seats(self) -> list[Seat]:
        """All workers that stay."""
        return [seat for seats in self.staying.values() for seat in seats]

    def without(self, absent: Collection[int]) -> "Plan":
        """The plan of a round that waits neither for these workers nor for any to be started.

        Its first host stays the same if its first worker does.
        """
        staying = {
            host: [seat for seat in seats if seat.worker not in absent]
            for host, seats in self.staying.items()
        }
        staying = {host: seats for host, seats in staying.items() if seats}
        hosts = {host: len(seats) for host, seats in staying.items()}
        return replace(self, hosts=hosts, staying=staying, vacancies={})


def make_plan(usable: Mapping[str, int], present: Sequence[Seat], limit: int | None) -> Plan:
    """Decides how many workers each host should have.

    The host of the worker that has been there longest comes first, so that rank 0 has the state.
    Where all that have it are on hosts that are no longer usable, one of them stays for a round
    with the newcomers, in addition to the most ranks.

    Args:
        usable: hosts and their slots.
        present: workers that run.
        limit: most ranks; None for as many as there are slots.
    """
    seats = sorted(present, key=lambda seat: seat.order)
    plan = _fill_hosts(usable, seats, limit)
    have_state = [seat for seat in seats if seat.since is not None]
    if not have_state or any(seat.since is not None for seat in plan.seats):
        return plan
    guest = have_state[0]
    rest = [seat for seat in seats if seat.host != guest.host]
    more = None if limit is None else limit + 1
    return replace(_fill_hosts({**usable, guest.host: 1}, [guest, *rest], more), guests=1)


def _fill_hosts(usable: Mapping[str, int], seats: Sequence[Seat], limit: int | None) -> Plan:
    """Gives hosts as many workers as they may have, those of the first seats before the others."""
    by_host: dict[str, list[Seat]] = {}
    for seat in seats:
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

    Workers keep their local rank where they can, and with it what they have bound to it; but one of
    those who have been there longest becomes rank 0.
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
    oldest = [seat.worker for seat in seats if seat.since == seats[0].since]
    if first_host and oldest and taken.get(0) not in oldest:
        taken = {rank: worker for rank, worker in taken.items() if worker != oldest[0]}
        taken[0] = oldest[0]
    free = iter([rank for rank in range(count) if rank not in taken])
    seated = set(taken.values())
    taken.update({next(free): seat.worker for seat in seats if seat.worker not in seated})
    return {worker: rank for rank, worker in taken.items()}
