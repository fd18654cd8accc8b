"""What the user wants of an elastic job, and why it could not go on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The user's wishes.

    Attributes:
        start: ranks to wait for before the first round.
        least: ranks without which there is no round.
        most: None for as many as there are slots.
        resets: how often the job may be formed anew; None for as often as need be.
        timeout: seconds that forming it may take.
    """

    start: int
    least: int
    most: int | None
    resets: int | None
    timeout: float


@dataclass(frozen=True)
class Failure:
    """The first worker that has failed.

    Attributes:
        name: its rank, or what it was when it had none yet.
        code: the job's exit code, if it cannot go on.
        trained: whether it had a place; a newcomer's failure hinders nobody.
    """

    name: str
    code: int
    trained: bool
