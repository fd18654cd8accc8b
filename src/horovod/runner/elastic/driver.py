"""Forms an elastic job, and forms it anew when workers are lost and hosts come or go.

Workers ask for their place whenever they (re)initialise. A round begins when all workers that the
plan wants have asked; then each is told its place. Newcomers are started while the others still
train, and these are interrupted only when the newcomers are ready. Where all have come while some
newcomers still start, as after a failure, a round begins soon without these, if it may.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from horovod.runner.elastic.blacklist import Blacklist
from horovod.runner.elastic.limits import Failure, Limits
from horovod.runner.elastic.meetings import Meetings
from horovod.runner.elastic.messages import Place, Ready
from horovod.runner.elastic.newcomers import Newcomers
from horovod.runner.elastic.resets import Resets
from horovod.runner.elastic.seating import Plan, assign, make_plan
from horovod.runner.elastic.state_holders import alone_has_state, find_reserves
from horovod.runner.elastic.surroundings import Surroundings
from horovod.runner.elastic.worker import Situation, Worker

REMOVED, ADDED = 1, 2  # horovod.common.elastic.HostUpdateResult
FAILED = 1
# Seconds that workers have to end when the others have finished, and to come and be told to leave
# when a round has begun without them.
GRACE = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0  # seconds until workers that have not come are called again
MOST_RANKS = 1 << 16  # where the user has not said how many


@dataclass
class Driver:
    """The state of an elastic job; each method takes one event in and acts on it.

    Attributes:
        verdict: the job's exit code once it is decided; then the workers that are left should be
            ended.
        failure: the first one since the job was last formed, of a worker that trained if one did.
        reason: why the job cannot go on; None where workers have ended it by their own ends.
    """

    limits: Limits
    surroundings: Surroundings
    blacklist: Blacklist
    can_grow: bool
    verdict: int | None = None
    failure: Failure | None = None
    reason: str | None = None
    _hosts: Mapping[str, int] | None = None  # until they have been discovered
    _workers: dict[int, Worker] = field(default_factory=dict)
    _started: int = 0
    _rounds: int = 0
    _finishing: bool = False
    _never_asked: list[Worker] = field(default_factory=list)  # ended with 0 before the first round
    _next_call: float | None = None  # when workers that have been called are called again
    _pause: float = FIRST_PAUSE
    _state_told: bool = False  # whether workers have said that they have the training's state
    _broken: bool = True  # whether a round has to begin before anybody can go on
    _deadline: float | None = None
    _told_slots: int | None = None  # how many there are, when last said because they are too few
    _meetings: Meetings = field(init=False)
    _resets: Resets = field(init=False)
    _newcomers: Newcomers = field(init=False)

    def __post_init__(self) -> None:
        self._meetings = Meetings(self.limits.timeout)
        self._resets = Resets(self.limits.resets)
        self._newcomers = Newcomers(self.limits, self.surroundings)

    @property
    def working(self) -> bool:
        """Whether there are workers."""
        return bool(self._workers)

    def hosts_found(self, hosts: Mapping[str, int]) -> None:
        """Hosts have been discovered; with far too many slots they are a mistake."""
        slots = sum(hosts.values())
        if self.limits.most is None and slots > MOST_RANKS:
            mistake = f"the hosts have {slots} slots, and --max-np does not say how many to take"
            if self._hosts is None:
                self.no_hosts_found(mistake)
            else:
                self.surroundings.say(f"The hosts are taken to be what they were: {mistake}.")
            return
        before = self._hosts or {}
        order = [host for host in before if host in hosts]
        order += [host for host in hosts if host not in before]
        self._hosts = {host: hosts[host] for host in order}
        self.advance()

    def no_hosts_found(self, reason: str) -> None:
        """The first look for hosts has failed: a mistake of the user's, which no waiting mends."""
        self._fail(f"cannot tell the hosts: {reason}", "horovodrun: error: ")

    def worker_ready(self, ready: Ready) -> None:
        """A worker asks for its place."""
        worker = self._workers.get(ready.worker)
        if worker is None:
            return
        worker.attempt = ready.attempt
        if worker.situation is Situation.LEAVING:
            if not worker.ended:
                self._dismiss(worker, worker.reason)
            return
        self._broken = self._broken or worker.situation is Situation.TRAINING
        if ready.trouble and worker.place is not None:
            self._meetings.failed(worker.place.rank, worker.host, ready.trouble)
        self._state_told = self._state_told or ready.synchronised
        # The others had a state before, which this one should have got in its first round.
        if self._state_told and not ready.synchronised and worker.since == self._rounds > 1:
            worker.since = None
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
            if not self._finishing and self.verdict is None:
                self.failure = None  # what was lost before has not hindered this one
            self._finishing = True
            self._deadline = self._next_call = None
        elif self._may_need_no_place(worker, code):
            self._never_asked.append(worker)
        else:
            if worker.situation is Situation.TRAINING and worker.place is not None:
                self._broken = True
                loss = f"rank {worker.place.rank} on {worker.host} has ended with code {code}"
                self.surroundings.announce_loss(self._rounds, loss)
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
        self._lose(worker, code)

    def _lose(self, worker: Worker, code: int) -> None:
        name = f"worker {worker.number}" if worker.place is None else str(worker.place.rank)
        if self.failure is None or (worker.since is not None and not self.failure.trained):
            self.failure = Failure(name, code or FAILED, trained=worker.since is not None)
        if not self._finishing:
            self._take_from(worker.host, only_slot=worker.ended and worker.since is None)

    def _take_from(self, host: str, *, only_slot: bool) -> None:
        """Leaves out a host on which a worker has failed, or a slot of it.

        Args:
            host: its name.
            only_slot: a newcomer that has hung takes nobody along who trains.
        """
        only_slot = only_slot and any(
            worker.since for worker in self._present() if worker.host == host
        )
        usable = self.blacklist.usable(self._hosts or {})
        others = sum(slots for other, slots in usable.items() if other != host)
        alone = alone_has_state(self._present(), host, self._rounds)
        if only_slot or alone or others < self.limits.least:
            # The host is needed: it goes on with a slot less.
            self.blacklist.take_slot(host)
            return
        self.blacklist.add(host)
        self.surroundings.say(f"No more workers are started on {host} for now.")
        for worker in self._workers.values():
            if worker.host == host:
                self._await_end(worker)
        self.surroundings.end_host(host)

    def tick(self) -> None:
        """Time has passed."""
        now = self.surroundings.now()
        if self._next_call is not None and now >= self._next_call:
            self._next_call = None
        self._newcomers.tick()
        if self._deadline is not None and now >= self._deadline:
            self._give_up_waiting()
        if self._rounds and self.verdict is None:
            self._give_up(self._overdue())
        if self.verdict is None:
            self._end_who_stays_away(now)
        self.advance()

    def next_tick(self) -> float | None:
        """When `tick` should be called, by the clock."""
        times = [self._deadline, self._next_call, self._newcomers.grace_end]
        times += [self.blacklist.next_return()]
        times += [worker.end_at for worker in self._of(Situation.LEAVING)]
        if self._rounds:
            starting = self._of(Situation.STARTING)
            times += [worker.started + self.limits.timeout for worker in starting]
        return min((time for time in times if time is not None), default=None)

    def advance(self) -> None:
        """Starts, interrupts and dismisses workers, and begins a round when all are there."""
        if self.verdict is not None:
            return
        if self._finishing:
            self._refuse_waiting("other workers have finished already")
            if self._deadline is None and self._lingering() and not self._of(Situation.TRAINING):
                self._deadline = self.surroundings.now() + self._grace
            return
        if self._never_asked:
            return  # the others may end in the same way; nobody is started anew
        if self._broken and self._deadline is None:
            self._deadline = self.surroundings.now() + self.limits.timeout
        if self._hosts is None:
            return
        if self._rounds and not any(worker.since for worker in self._present()):
            self._fail(
                "No worker that has the state of the training is left, so that newcomers cannot go"
                " on from it; start the job again, from a checkpoint if there is one."
            )
            return
        plan = self._plan()
        if not self._enough(plan):
            return
        self._fill(plan)
        plan = self._plan()
        reserves = find_reserves(self._present(), plan, self._rounds)
        needed = [*reserves, *(self._workers[seat.worker] for seat in plan.seats)]
        next_round = self._newcomers.next_round(plan, needed, first=not self._rounds)
        self._dismiss_surplus(plan, reserves if next_round is None else ())
        if next_round is not None:
            self._begin_round(next_round)
            plan = self._plan()
        if self.verdict is None:
            self._interrupt(plan)

    def _of(self, situation: Situation) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.situation is situation]

    def _present(self) -> list[Worker]:
        workers = self._workers.values()
        return [worker for worker in workers if worker.situation is not Situation.LEAVING]

    def _plan(self) -> Plan:
        present = [worker.seat() for worker in self._present()]
        return make_plan(self.blacklist.usable(self._hosts or {}), present, self.limits.most)

    def _needed(self) -> int:
        return self.limits.least if self._rounds or self.failure else self.limits.start

    def _enough(self, plan: Plan) -> bool:
        needed = self._needed()
        if plan.lasting >= needed:
            self._told_slots = None
            return True
        slots = "is 1 slot" if plan.lasting == 1 else f"are {plan.lasting} slots"
        left = " left" * bool(self._rounds or self.failure)
        short = f"There {slots}{left}, at least {needed} {'is' if needed == 1 else 'are'} needed"
        if not self.can_grow and self.blacklist.next_return() is None:
            self._fail(f"{short}, and no host will come.")
        elif self._deadline is not None and self._told_slots != plan.lasting:
            self._told_slots = plan.lasting
            self.surroundings.say(
                f"{short}; waiting for more, for up to {self.limits.timeout:g} seconds"
                " (--elastic-timeout)."
            )
        return False

    def _fill(self, plan: Plan) -> None:
        """Starts workers where they are missing."""
        newcomers: list[tuple[str, int]] = []
        for host, count in plan.vacancies.items():
            for _ in range(count):
                self._workers[self._started] = Worker(
                    self._started, host, started=self.surroundings.now()
                )
                newcomers.append((host, self._started))
                self._started += 1
        if not newcomers:
            return
        places = assign(self._plan())
        for host in plan.vacancies:
            self.surroundings.launch(
                host, {worker: places[worker] for where, worker in newcomers if where == host}
            )

    def _dismiss_surplus(self, plan: Plan, reserves: Sequence[Worker]) -> None:
        """Sends away who waits and has no place, and ends newcomers that have none any more."""
        wanted = {seat.worker for seat in plan.seats}
        for worker in self._present():
            if worker.number in wanted or worker in reserves:
                continue
            if worker.situation is Situation.STARTING:
                self._end(worker)
            elif worker.situation is Situation.WAITING:
                self._dismiss(worker, worker.no_slot())

    def _end(self, worker: Worker) -> None:
        self._await_end(worker)
        self.surroundings.end_worker(worker.number)

    def _await_end(self, worker: Worker) -> None:
        worker.situation = Situation.LEAVING
        worker.ended = True
        worker.end_at = None

    def _lingering(self) -> list[Worker]:
        """Workers that have been sent away, and have not ended yet."""
        return [worker for worker in self._of(Situation.LEAVING) if not worker.ended]

    @property
    def _grace(self) -> float:
        return min(GRACE, self.limits.timeout)

    def _leave_behind(self) -> None:
        """Has those leave who train on in an old round while the new one begins without them.

        Nobody waits for them, and they keep no slot. They are told when they come, which those will
        not whose host has vanished.
        """
        for worker in self._of(Situation.TRAINING):
            worker.situation = Situation.LEAVING
            worker.reason = worker.no_slot()
            worker.end_at = self.surroundings.now() + self._grace

    def _end_who_stays_away(self, now: float) -> None:
        for worker in self._of(Situation.LEAVING):
            if worker.end_at is not None and now >= worker.end_at:
                self.surroundings.say(
                    f"Worker {worker.number} on {worker.host}, without which the job goes on, has"
                    f" not come for {self._grace:g} seconds; ending it."
                )
                self._end(worker)

    def _dismiss(self, worker: Worker, reason: str) -> None:
        worker.situation = Situation.LEAVING
        worker.end_at = None
        worker.reason = reason
        self.surroundings.answer(worker.number, worker.attempt, Place(self._rounds, {}, reason))

    def _refuse_waiting(self, reason: str) -> None:
        for worker in (*self._of(Situation.WAITING), *self._of(Situation.STARTING)):
            self._dismiss(worker, reason)

    def _interrupt(self, plan: Plan) -> None:
        """Calls those who train when one of them has to go, or when newcomers are all ready.

        They are called again until they come: who is just being told its place misses a call.
        """
        if self._next_call is not None:
            return
        training = {worker.number for worker in self._of(Situation.TRAINING)}
        wanted = {seat.worker for seat in plan.seats}
        gone = training - wanted
        ready = wanted - training and not self._of(Situation.STARTING)
        if training and (ready or (gone and not plan.guests)):
            self._next_call = self.surroundings.now() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            update = (REMOVED if gone else 0) | (ADDED if wanted - training else 0)
            self.surroundings.announce(self._rounds, update)

    def _begin_round(self, plan: Plan) -> None:
        places = assign(plan)
        starting = [worker.number for worker in self._of(Situation.STARTING)]
        if reason := self._resets.begin_round(places, starting):
            self._fail(reason)
            return
        if reason := self._meetings.end_round(self.surroundings.now()):
            self._fail(reason)
            return
        self._rounds += 1
        self._broken = False
        self._deadline = self._next_call = None
        self._newcomers.round_begins()
        self._pause = FIRST_PAUSE
        self.failure = None
        self._leave_behind()
        self.surroundings.gather(list(plan.hosts))
        for number, place in places.items():
            worker = self._workers[number]
            worker.place = place
            worker.since = worker.since or self._rounds
            worker.situation = Situation.TRAINING
            self.surroundings.answer(
                number, worker.attempt, Place(self._rounds, place.environment())
            )

    def _give_up_waiting(self) -> None:
        self._deadline = None
        if self._finishing:
            for worker in self._lingering():
                self._end(worker)
            return
        training, starting = self._of(Situation.TRAINING), self._of(Situation.STARTING)
        awaited, waiting = bool(training or starting), bool(self._of(Situation.WAITING))
        if awaited and not waiting and self._plan().lasting >= self._needed():
            return  # nobody waits for anybody
        if awaited and waiting:
            self._give_up([*training, *self._overdue()])  # who came later has time until the next
            return
        unknown = " No answer has come yet to which hosts there are." * (self._hosts is None)
        needed = self._needed()
        self._fail(
            f"There were not enough slots for {needed} rank{'s' * (needed != 1)} within"
            f" {self.limits.timeout:g} seconds (--elastic-timeout).{unknown}"
        )

    def _overdue(self) -> list[Worker]:
        """Newcomers that have had their time to come."""
        earliest = self.surroundings.now() - self.limits.timeout
        return [each for each in self._of(Situation.STARTING) if each.started <= earliest]

    def _give_up(self, late: Sequence[Worker]) -> None:
        """Ends workers that do not come, and goes on as if they had ended by themselves."""
        for worker in late:
            if worker.situation is Situation.LEAVING:
                continue  # its host is left out by now
            self.surroundings.say(
                f"Worker {worker.number} on {worker.host} has not come for"
                f" {self.limits.timeout:g} seconds (--elastic-timeout); ending it."
            )
            self._end(worker)
            self._lose(worker, FAILED)

    def _fail(self, reason: str, prefix: str = "") -> None:
        self.surroundings.say(f"{prefix}{reason}")
        if self.verdict is None:
            self.reason = reason
        self.verdict = FAILED if self.failure is None else self.failure.code
