"""Hosts on which a worker has failed: for good, or until they have cooled down."""

from collections.abc import Callable, Mapping

DOUBLINGS = 32  # of the first delay; more would overflow sooner than matter


class Blacklist:
    """Leaves out hosts that have failed.

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
        self._lost_slots: dict[str, int] = {}

    def add(self, host: str) -> None:
        """Leaves a host out from now on."""
        failures = self._failures.get(host, 0)
        self._failures[host] = failures + 1
        if self._cooldown is None:
            self._until[host] = float("inf")
        else:
            shortest, longest = self._cooldown
            delay = min(longest, shortest * 2 ** min(failures, DOUBLINGS))
            self._until[host] = self._now() + delay

    def take_slot(self, host: str) -> None:
        """Uses a host with one slot less."""
        self._lost_slots[host] = self._lost_slots.get(host, 0) + 1

    def bars(self, host: str) -> bool:
        """Whether a host is left out now."""
        return self._until.get(host, float("-inf")) > self._now()

    def usable(self, hosts: Mapping[str, int]) -> dict[str, int]:
        """The hosts and slots that may be used now, in the same order."""
        left = {
            host: slots - self._lost_slots.get(host, 0)
            for host, slots in hosts.items()
            if not self.bars(host)
        }
        return {host: slots for host, slots in left.items() if slots > 0}

    def next_return(self) -> float | None:
        """When the next host returns, by the clock; None when none will."""
        coming = [until for until in self._until.values() if self._now() < until < float("inf")]
        return min(coming, default=None)
