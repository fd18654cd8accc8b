"""Hosts and slots that are left out after a failure: for good, or until they have cooled down."""

from collections.abc import Callable, Mapping

DOUBLINGS = 32  # of the first delay; more would overflow sooner than matter


class Blacklist:
    """Leaves out hosts, or slots of them, that have failed.

    Args:
        cooldown: shortest and longest time, in seconds, that a host is left out; it doubles with
            each failure. None: for good.
        now: the clock, in seconds.
    """

    def __init__(self, cooldown: tuple[float, float] | None, now: Callable[[], float]) -> None:
        self._cooldown = cooldown
        self._now = now
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._lost_slots: dict[str, list[float]] = {}  # when each of them returns

    def add(self, host: str) -> None:
        """Leaves a host out from now on."""
        self._until[host] = self._next_return_of(host)

    def take_slot(self, host: str) -> None:
        """Uses a host with one slot less from now on."""
        self._lost_slots.setdefault(host, []).append(self._next_return_of(host))

    def _next_return_of(self, host: str) -> float:
        """When a host that has failed once more may be used again."""
        failures = self._failures.get(host, 0)
        self._failures[host] = failures + 1
        if self._cooldown is None:
            return float("inf")
        shortest, longest = self._cooldown
        return self._now() + min(longest, shortest * 2.0 ** min(failures, DOUBLINGS))

    def bars(self, host: str) -> bool:
        """Whether a host is left out now."""
        return self._until.get(host, float("-inf")) > self._now()

    def usable(self, hosts: Mapping[str, int]) -> dict[str, int]:
        """The hosts and slots that may be used now, in the same order."""
        now = self._now()
        left = {
            host: slots - sum(until > now for until in self._lost_slots.get(host, ()))
            for host, slots in hosts.items()
            if not self.bars(host)
        }
        return {host: slots for host, slots in left.items() if slots > 0}

    def next_return(self) -> float | None:
        """When the next host or slot returns, by the clock; None when none will."""
        times = [
            *self._until.values(),
            *(time for lost in self._lost_slots.values() for time in lost),
        ]
        return min((time for time in times if self._now() < time < float("inf")), default=None)
