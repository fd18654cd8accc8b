"""What the driver of an elastic job acts on: the job itself, or a test's record of it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from horovod.runner.elastic.messages import Place
from horovod.runner.hosts import SlotInfo


class Surroundings(Protocol):
    """What the driver acts on."""

    def now(self) -> float:
        """The clock, in seconds."""

    def launch(self, host: str, workers: Mapping[int, SlotInfo]) -> None:
        """Starts workers on a host; each gets a place that it will probably have."""

    def end_host(self, host: str) -> None:
        """Ends all workers of a host."""

    def end_worker(self, worker: int) -> None:
        """Ends a worker."""

    def gather(self, hosts: Sequence[str]) -> None:
        """Notes on which hosts all those are who are told their places next."""

    def answer(self, worker: int, attempt: int, place: Place) -> None:
        """Tells a worker its place."""

    def announce(self, round_number: int, update: int) -> None:
        """Tells the workers of a round that they should come for new places."""

    def announce_loss(self, round_number: int, loss: str) -> None:
        """Tells those that still connect with each other that one of the round has ended."""

    def say(self, text: str) -> None:
        """Tells the user."""
