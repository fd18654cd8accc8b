"""How long a round waits for newcomers that are still starting while all others wait for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from horovod.runner.elastic.limits import Limits
from horovod.runner.elastic.seating import Plan
from horovod.runner.elastic.surroundings import Surroundings
from horovod.runner.elastic.worker import Situation, Worker

# Seconds: newcomers that are nearly ready should not cost the others a second round.
STARTING_GRACE = 5.0
_NAMED = 3  # workers that a message names


@dataclass
class Newcomers:
    """Has rounds begin without newcomers that take long to start.

    Attributes:
        grace_end: until when the others wait for them, by the driver's clock; None until nobody
            else is missing, and once it is over.
    """

    limits: Limits
    surroundings: Surroundings
    grace_end: float | None = None
    _grace_over: bool = False
    _told: set[int] = field(default_factory=set)  # the user knows that these are waited for

    def tick(self) -> None:
        """Time has passed."""
        if self.grace_end is not None and self.surroundings.now() >= self.grace_end:
            self.grace_end = None
            self._grace_over = True

    def round_begins(self) -> None:
        """Nobody waits any more."""
        self.grace_end = None
        self._grace_over = False

    def next_round(self, plan: Plan, needed: Sequence[Worker], *, first: bool) -> Plan | None:
        """The plan of a round that can begin now; None if there is none.

        Args:
            plan: of a round with all.
            needed: its workers, and others that have to come before it begins.
            first: whether it is the first round, which waits for all: nobody has a state with
                which to go on. Plans of later ones have somebody with it, who is no newcomer.
        """
        missing = [worker for worker in needed if worker.situation is not Situation.WAITING]
        if not missing:
            return plan
        if first or any(worker.situation is not Situation.STARTING for worker in missing):
            return None
        if not self._grace_over:
            if self.grace_end is None:
                self.grace_end = self.surroundings.now() + STARTING_GRACE
            return None
        present = plan.without([worker.number for worker in missing])
        if present.size >= self.limits.least:
            return present
        self._say_who_is_waited_for(missing, present.size)
        return None

    def _say_who_is_waited_for(self, missing: Sequence[Worker], waiting: int) -> None:
        if self._told.issuperset(worker.number for worker in missing):
            return
        self._told.update(worker.number for worker in missing)
        names = [f"worker {worker.number} on {worker.host}" for worker in missing[:_NAMED]]
        if len(missing) > _NAMED:
            names.append(f"{len(missing) - _NAMED} more")
        are = "is" if len(missing) == 1 else "are"
        there = "there is 1 rank" if waiting == 1 else f"there are {waiting} ranks"
        self.surroundings.say(
            f"Training stands still until {', '.join(names)} {are} ready, for up to"
            f" {self.limits.timeout:g} seconds (--elastic-timeout): {there}, at least"
            f" {self.limits.least} are needed."
        )
