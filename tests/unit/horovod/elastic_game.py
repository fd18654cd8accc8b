"""Elastic jobs without processes: a driver, what it does, and what happens to it."""

from collections.abc import Mapping, Sequence

from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.driver import Driver
from horovod.runner.elastic.limits import Limits
from horovod.runner.elastic.messages import Place, Ready
from horovod.runner.hosts import SlotInfo


class Recorder:
    """Surroundings that write down what the driver does; its workers do nothing by themselves."""

    def __init__(self) -> None:
        self.time = 0.0
        self.started: list[tuple[str, list[int]]] = []
        self.ended: list[str] = []
        self.ended_workers: list[int] = []
        self.gathered: list[list[str]] = []
        self.attempts: dict[int, int] = {}
        self.places: dict[int, Place] = {}
        self.announced: list[tuple[int, int]] = []
        self.losses: list[tuple[int, str]] = []
        self.said: list[str] = []

    def now(self) -> float:
        return self.time

    def launch(self, host: str, workers: Mapping[int, SlotInfo]) -> None:
        self.started.append((host, list(workers)))

    def end_host(self, host: str) -> None:
        self.ended.append(host)

    def end_worker(self, worker: int) -> None:
        self.ended_workers.append(worker)

    def gather(self, hosts: Sequence[str]) -> None:
        self.gathered.append(list(hosts))

    def answer(self, worker: int, attempt: int, place: Place) -> None:
        self.attempts[worker] = attempt
        self.places[worker] = place

    def announce(self, round_number: int, update: int) -> None:
        self.announced.append((round_number, update))

    def announce_loss(self, round_number: int, loss: str) -> None:
        self.losses.append((round_number, loss))

    def say(self, text: str) -> None:
        self.said.append(text)

    def ranks(self) -> dict[int, int]:
        return {
            worker: int(place.environment["HOROVOD_RANK"])
            for worker, place in self.places.items()
            if place.environment
        }


class Game:
    """A driver, what it did, and short words for what happens to it."""

    def __init__(
        self,
        *,
        start: int,
        least: int,
        most: int | None = None,
        resets: int | None = None,
        can_grow: bool = True,
        cooldown: tuple[float, float] | None = None,
    ) -> None:
        self.world = Recorder()
        self.driver = Driver(
            Limits(start, least, most, resets, timeout=60.0),
            self.world,
            Blacklist(cooldown, self.world.now),
            can_grow=can_grow,
        )
        self.asked: dict[int, int] = {}

    def hosts(self, **hosts: int) -> None:
        self.driver.hosts_found(hosts)

    def ready(self, *workers: int, trouble: str = "", synchronised: bool = False) -> None:
        for worker in workers:
            attempt = self.asked.get(worker, 0)
            self.asked[worker] = attempt + 1
            self.driver.worker_ready(Ready(worker, attempt, trouble, synchronised))

    def end(self, worker: int, code: int) -> None:
        self.driver.worker_ended(worker, code)


def goes_on(game: Game) -> bool:
    """Whether the job has not been decided yet."""
    return game.driver.verdict is None
