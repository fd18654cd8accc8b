"""Forms an elastic job, and forms it anew when workers are lost and hosts come or go.

Workers ask for their place whenever they (re)initialise. A round begins when all workers that the
plan wants have asked; then each is told its place. Newcomers are started while the others still
train, and these are interrupted only when the newcomers are ready.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.messages import Place, Ready
from horovod.runner.elastic.seating import Plan, Seat, assign, make_plan
from horovod.runner.hosts import SlotInfo

REMOVED, ADDED = 1, 2  # horovod.common.elastic.HostUpdateResult
FAILED = 1


class Situation(enum.Enum):
    """What a worker does."""

    STARTING = "starting"
    WAITING = "waiting for its place"
    TRAINING = "training"
    LEAVING = "leaving"


@dataclass
class Worker:
    """A worker that runs."""

    number: int
    host: str
    situation: Situation = Situation.STARTING
    place: SlotInfo | None = None
    attempt: int = 0

    def seat(self) -> Seat:
        """Where it was."""
        place = self.place
        return Seat(
            self.number,
            self.host,
            None if place is None else place.rank,
            None if place is None else place.local_rank,
        )


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
    """

    name: str
    code: int


class Surroundings(Protocol):
    """What the driver acts on."""

    def now(self) -> float:
        """The clock, in seconds."""

    def launch(self, host: str, workers: Mapping[int, SlotInfo]) -> None:
        """Starts workers on a host; each gets a place that it will probably have."""

    def end_host(self, host: str) -> None:
        """Ends all workers of a host."""

    def answer(self, worker: int, attempt: int, place: Place) -> None:
        """Tells a worker its place."""

    def announce(self, round_number: int, update: int) -> None:
        """Tells the workers of a round that they should come for new places."""

    def say(self, text: str) -> None:
        """Tells the user."""


@dataclass
class Driver:
    """The state of an elastic job; each method takes one event in and acts on it.

    Attributes:
        verdict: the job's exit code once it is decided; then the workers that are left should be
            ended.
        failure: the first one since the job was last formed.
    """

    limits: Limits
    surroundings: Surroundings
    blacklist: Blacklist
    can_grow: bool
    verdict: int | None = None
    failure: Failure | None = None
    _hosts: Mapping[str, int] | None = None  # until they have been discovered
    _workers: dict[int, Worker] = field(default_factory=dict)
    _started: int = 0
    _rounds: int = 0
    _finishing: bool = False
    _never_asked: list[Worker] = field(default_factory=list)  # ended with 0 before the first round
    _announced: bool = False
    _broken: bool = True  # whether a round has to begin before anybody can go on
    _deadline: float | None = None

    @property
    def working(self) -> bool:
        """Whether there are workers."""
        return bool(self._workers)

    def hosts_found(self, hosts: Mapping[str, int]) -> None:
        """Hosts have been discovered."""
        before = self._hosts or {}
        order = [host for host in before if host in hosts]
        order += [host for host in hosts if host not in before]
        self._hosts = {host: hosts[host] for host in order}
        self.advance()

    def no_hosts_found(self, reason: str) -> None:
        """The first look for hosts has failed: a mistake of the user's, which no waiting mends."""
        self._fail(f"horovodrun: error: cannot tell the hosts: {reason}")

    def worker_ready(self, ready: Ready) -> None:
        """A worker asks for its place."""
        worker = self._workers.get(ready.worker)
        if worker is None:
            return
        worker.attempt = ready.attempt
        if worker.situation is Situation.LEAVING:
            return
        self._broken = self._broken or worker.situation is Situation.TRAINING
        worker.situation = Situation.WAITING
        never_asked, self._never_asked = self._never_asked, []
        for missing in never_asked:  # this one would wait for them
            self._worker_failed(missing, 0)
        self.advance()

    def worker_ended(self, number: int, code: int) -> None:
        """A worker's process has ended."""
        worker = self._workers.pop(number, None)
        if worker is None:
            return
        if worker.situation is Situation.LEAVING:
            pass
        elif worker.situation is Situation.TRAINING and code == 0:
            self._finishing = True
            self.failure = None  # what was lost before has not hindered this one
        elif self._may_need_no_place(worker, code):
            self._never_asked.append(worker)
        else:
            self._broken = self._broken or worker.situation is Situation.TRAINING
            self._worker_failed(worker, code)
        begun = self._rounds or self._never_asked or self.failure
        if not self._workers and self.verdict is None and begun:
            self.verdict = 0 if self.failure is None else self.failure.code
        self.advance()

    def _may_need_no_place(self, worker: Worker, code: int) -> bool:
        """Whether its program may be one that never calls `init`, as far as anybody has shown."""
        starting = worker.situation is Situation.STARTING and not self._rounds
        return starting and code == 0 and not self._of(Situation.WAITING)

    def _worker_failed(self, worker: Worker, code: int) -> None:
        if self.verdict is not None:
            return
        rank = "" if worker.place is None else f" (rank {worker.place.rank})"
        early = "" if code else " before it had called hvd.init()"
        self.surroundings.say(
            f"Worker {worker.number}{rank} on {worker.host} ended with code {code}{early}."
        )
        name = f"worker {worker.number}" if worker.place is None else str(worker.place.rank)
        self.failure = self.failure or Failure(name, code or FAILED)
        if self._finishing:
            return
        usable = self.blacklist.usable(self._hosts or {})
        others = sum(slots for host, slots in usable.items() if host != worker.host)
        if others < self.limits.least:
            # Without this host there would be too few: it goes on with a slot less.
            self.blacklist.take_slot(worker.host)
            return
        self.blacklist.add(worker.host)
        self.surroundings.say(f"No more workers are started on {worker.host} for now.")
        for other in self._workers.values():
            if other.host == worker.host:
                other.situation = Situation.LEAVING
        self.surroundings.end_host(worker.host)

    def tick(self) -> None:
        """Time has passed."""
        if self._deadline is not None and self.surroundings.now() >= self._deadline:
            self._give_up_waiting()
        self.advance()

    def next_tick(self) -> float | None:
        """When `tick` should be called, by the clock."""
        times = [self._deadline, self.blacklist.next_return()]
        return min((time for time in times if time is not None), default=None)

    def advance(self) -> None:
        """Starts, interrupts and dismisses workers, and begins a round when all are there."""
        if self.verdict is not None:
            return
        if self._finishing:
            self._refuse_waiting("other workers have finished already")
            return
        if self._never_asked:
            return  # the others may end in the same way; nobody is started anew
        if self._broken and self._deadline is None:
            self._deadline = self.surroundings.now() + self.limits.timeout
        if self._hosts is None:
            return
        plan = self._plan()
        if not self._enough(plan):
            return
        self._fill(plan)
        plan = self._plan()
        self._dismiss_surplus(plan)
        if all(
            self._workers[seat.worker].situation is Situation.WAITING
            for seats in plan.staying.values()
            for seat in seats
        ):
            self._begin_round(plan)
            return
        self._interrupt(plan)

    def _of(self, situation: Situation) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.situation is situation]

    def _plan(self) -> Plan:
        present = [
            worker.seat()
            for worker in self._workers.values()
            if worker.situation is not Situation.LEAVING
        ]
        return make_plan(self.blacklist.usable(self._hosts or {}), present, self.limits.most)

    def _needed(self) -> int:
        return self.limits.least if self._rounds or self.failure else self.limits.start

    def _enough(self, plan: Plan) -> bool:
        needed = self._needed()
        if plan.size >= needed:
            return True
        if not self.can_grow and self.blacklist.next_return() is None:
            self._fail(
                f"{plan.size} slots are left, at least {needed} are needed, and no host will come."
            )
        return False

    def _fill(self, plan: Plan) -> None:
        """Starts workers where they are missing."""
        newcomers: list[tuple[str, int]] = []
        for host, count in plan.vacancies.items():
            for _ in range(count):
                self._workers[self._started] = Worker(self._started, host)
                newcomers.append((host, self._started))
                self._started += 1
        if not newcomers:
            return
        places = assign(self._plan())
        for host in plan.vacancies:
            self.surroundings.launch(
                host, {worker: places[worker] for where, worker in newcomers if where == host}
            )

    def _dismiss_surplus(self, plan: Plan) -> None:
        wanted = {seat.worker for seats in plan.staying.values() for seat in seats}
        for worker in self._of(Situation.WAITING):
            if worker.number not in wanted:
                worker.situation = Situation.LEAVING
                self._dismiss(worker, f"{worker.host} has no slot for it any more")

    def _dismiss(self, worker: Worker, reason: str) -> None:
        self.surroundings.answer(worker.number, worker.attempt, Place(self._rounds, {}, reason))

    def _refuse_waiting(self, reason: str) -> None:
        for worker in (*self._of(Situation.WAITING), *self._of(Situation.STARTING)):
            worker.situation = Situation.LEAVING
            self._dismiss(worker, reason)

    def _interrupt(self, plan: Plan) -> None:
        """Calls those who train when one of them has to go, or when newcomers are all ready."""
        if self._announced:
            return
        training = {worker.number for worker in self._of(Situation.TRAINING)}
        wanted = {seat.worker for seats in plan.staying.values() for seat in seats}
        gone = training - wanted
        if training and (gone or (wanted - training and not self._of(Situation.STARTING))):
            self._announced = True
            update = (REMOVED if gone else 0) | (ADDED if wanted - training else 0)
            self.surroundings.announce(self._rounds, update)

    def _begin_round(self, plan: Plan) -> None:
        if self._rounds and self.limits.resets is not None and self._rounds > self.limits.resets:
            self._fail(
                f"The job has been formed anew {self.limits.resets} times, which is the limit"
                " (--reset-limit)."
            )
            return
        self._rounds += 1
        self._announced = self._broken = False
        self._deadline = None
        self.failure = None
        for number, place in assign(plan).items():
            worker = self._workers[number]
            worker.place = place
            worker.situation = Situation.TRAINING
            self.surroundings.answer(
                number, worker.attempt, Place(self._rounds, place.environment())
            )

    def _give_up_waiting(self) -> None:
        self._deadline = None
        late = [*self._of(Situation.TRAINING), *self._of(Situation.STARTING)]
        if late and not self._of(Situation.WAITING) and self._plan().size >= self._needed():
            return  # nobody waits for anybody
        if self._of(Situation.WAITING) and late:
            for host in sorted({worker.host for worker in late}):
                numbers = [str(worker.number) for worker in late if worker.host == host]
                self.surroundings.say(
                    f"Workers {', '.join(numbers)} on {host} have not come for"
                    f" {self.limits.timeout:g} seconds (--elastic-timeout); ending them."
                )
                self.surroundings.end_host(host)
            return
        self._fail(
            f"There were not enough slots for {self.limits.least} ranks within"
            f" {self.limits.timeout:g} seconds (--elastic-timeout)."
        )

    def _fail(self, reason: str) -> None:
        self.surroundings.say(reason)
        self.verdict = FAILED if self.failure is None else self.failure.code
