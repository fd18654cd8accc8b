"""What the driver of an elastic job knows of a worker."""

import enum
from dataclasses import dataclass

from horovod.runner.elastic.seating import Seat
from horovod.runner.hosts import SlotInfo


class Situation(enum.Enum):
    """What a worker does."""

    STARTING = "starting"
    WAITING = "waiting for its place"
    TRAINING = "training"
    LEAVING = "leaving"


@dataclass
class Worker:
    """A worker that runs.

    Attributes:
        started: when, by the driver's clock.
        ended: whether it has been ended, and is only waited for.
        end_at: when it is ended unless it has asked for a place by then, by the driver's clock;
            None if it may take its time.
        since: the round in which it first had a place; None if it has had none, or has said after
            it that it has not got the state of the training.
        attempt: how often it had asked for a place before it did so last.
        reason: why it has no place any more.
    """

    number: int
    host: str
    situation: Situation = Situation.STARTING
    started: float = 0.0
    ended: bool = False
    end_at: float | None = None
    place: SlotInfo | None = None
    since: int | None = None
    attempt: int = 0
    reason: str = ""

    def seat(self) -> Seat:
        """Where it was."""
        place = self.place
        return Seat(
            self.number,
            self.host,
            None if place is None else place.rank,
            None if place is None else place.local_rank,
            self.since,
        )

    def no_slot(self) -> str:
        """Why it has to leave when a round begins without it."""
        return f"{self.host} has no slot for it any more"
