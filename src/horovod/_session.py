"""The one runtime of this process, which all front ends share."""

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from horovod import _chosen_ranks, _launcher_store, _mpi, _settings, _standard_error, _timeline
from horovod._loader import CoreLibrary, _bindings, select_core
from horovod._mpi_jobs import MpiJobs, numbers_in_world, place
from horovod._parent_rank import (
    ParentRank,
    describe_inherited_place,
    read_parent_rank,
    tell_children,
    tell_no_children,
)
from horovod._placement import Placement, read_placement, without_mpi
from horovod._put_off_starts import PutOff
from horovod._runtime_start import start_runtime
from horovod._starts import Starts
from horovod._unused_settings import describe_unused, require_accepted
from horovod.common.exceptions import HorovodInternalError

NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."
_LEAVING_SECONDS = 5.0  # for threads to come back from the core when the process ends
_TIMES_OUTSIDE = 5  # a millisecond apart, until they are taken to have come back


@dataclass(frozen=True)
class Member:
    """This process as a running member of the job, from `init()` to `shutdown()`.

    Attributes:
        process: id of the process that started the runtime; a fork of it has no threads to run one.
        process_sets: the registered ones: number to global ranks; 0 is the global one.
        registered: the objects that stand for them, but for the global one.
        dynamic_process_sets: whether they may be added and removed after `init()`.
        mpi: through which the ranks have met, if they have.
        generation: tells apart the jobs that the same ranks have formed.
        interrupted: the handles of joins whose callers have not waited for their end.
        silent: ranks that have not said in time where they came to a call that failed.
    """

    runtime: "_bindings.Runtime"
    placement: Placement
    core: CoreLibrary
    process: int
    process_sets: dict[int, list[int]] = field(default_factory=dict)
    registered: list[Any] = field(default_factory=list)
    dynamic_process_sets: bool = False
    mpi: "_bindings.MpiMembership | None" = None
    generation: int = 0
    interrupted: list[int] = field(default_factory=list)
    silent: set[int] = field(default_factory=set)

    def require_own_process(self) -> None:
        """Refuses to run collectives in a fork of the process that called `init()`.

        Raises:
            RuntimeError: this is one.
        """
        if os.getpid() != self.process:
            raise RuntimeError(
                f"process {os.getpid()} is a fork of process {self.process}, which had called"
                " hvd.init() before; its runtime cannot be used here. Fork before hvd.init(), or"
                " start the process with multiprocessing's 'spawn' or 'forkserver'."
            )


class Session:
    """Starts and ends runtimes, one at a time, as often as wished."""

    def __init__(self) -> None:
        # Signals' handlers may call what is called on their thread already.
        self._lock = threading.RLock()
        self._changing = False
        self._end_wanted = False  # of the job that is being joined
        os.register_at_fork(after_in_child=self._forget_other_threads)
        self._member: Member | None = None
        self._put_off: PutOff | None = None
        self._generation = 0
        self._trouble = ""  # why the last job could not be joined, until the launcher is told
        self._starts = Starts()
        self._mpi_jobs = MpiJobs()
        self._process = os.getpid()
        self._ends_at_exit = False
        self._followers: list[Callable[[Member | None], None]] = []
        self._on_end: list[Callable[[], None]] = []

    def follow(
        self,
        change: "Callable[[Member | None], None]",
        ended: "Callable[[], None] | None" = None,
    ) -> None:
        """Tells the membership of this process, now and whenever it changes.

        Args:
            change: called with it, None before the job ends, while other threads may still work.
            ended: called when that job has ended.
        """
        with self._lock:
            self._followers.append(change)
            if ended is not None:
                self._on_end.append(ended)
            change(self._member)

    def _forget_other_threads(self) -> None:
        """In a fork, nobody else holds the lock."""
        self._lock = threading.RLock()
        self._changing = False

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        self._changing = True
        try:
            yield
        finally:
            self._changing = False

    def _become(self, member: Member | None) -> None:
        self._member = member
        for change in self._followers:
            change(member)

    def put_off(self, call: Callable[[], None], *, adds: bool) -> bool:
        """Leaves a call of `init()` for when this process, a child of a rank, communicates.

        Args:
            call: what joins a job.
            adds: whether it does more in a job that has been joined.

        Returns:
            Whether it has been left: this is such a child, and in no job.
        """
        with self._lock:
            if self._member is not None or self._changing:
                return False
            if self._put_off is None:
                parent = read_parent_rank(os.environ)
                if parent is None:
                    return False
                self._put_off = PutOff(parent, [call])
            elif adds:
                self._put_off.calls.append(call)
            return True

    def start(
        self,
        *,
        communicator: Any = None,
        ranks: tuple[int, ...] = (),
    ) -> bool:
        """Joins the job that the environment describes; does nothing when it has been joined.

        So it does in a fork, as a loader's worker, which has this rank's place, unless it asks for
        chosen ranks.

        Args:
            communicator: of mpi4py: its ranks are the job, whatever the environment says.
            ranks: of the launcher's job that form this one; empty for all.

        Returns:
            Whether it has joined now.

        Raises:
            HorovodInternalError: not all ranks came in time; the message says who is missing.
            SettingError: the environment is not usable.
            ValueError: the ranks are not possible here; this is a signal's handler, within another
                start or end.
        """
        with self._lock:
            if self._changing:
                raise ValueError(
                    "hvd.init() was called by a signal's handler within hvd.init() or"
                    " hvd.shutdown(); call it when that has returned"
                )
            if self._member is not None:
                if communicator is not None or ranks:
                    self._member.require_own_process()
                return False
            self._end_wanted = False
            with self._change():
                member = None
                while member is None:
                    with contextlib.ExitStack() as meeting:
                        member = self._join(communicator, ranks, meeting)
                self._become(member)
                self._put_off = None
                tell_children(
                    os.environ,
                    member.placement,
                    is_homogeneous=member.runtime.is_homogeneous,
                    mpi_threads=None if member.mpi is None else member.mpi.threads,
                )
            if self._end_wanted:
                self.stop()
            return True

    def _join(
        self, communicator: Any, ranks: tuple[int, ...], meeting: contextlib.ExitStack
    ) -> Member | None:
        """Joins the job; None when an elastic job has to be formed anew before.

        What is to happen when the ranks have met, or have not, is left to `meeting`.

        Raises:
            ValueError: an elastic job is to be one of chosen ranks; a variable is not accepted.
            HorovodInternalError: the ranks have not met, in a job that is not elastic.
        """
        elastic = _launcher_store.is_elastic_worker(os.environ)
        if elastic and ranks:
            raise ValueError(
                f"hvd.init(comm={list(ranks)}): the ranks of an elastic job change, so that none"
                " can be chosen by number; use process sets, or horovodrun without --min-np"
            )
        if elastic:
            if inherited := describe_inherited_place(os.environ):
                raise RuntimeError(f"there is no place in an elastic job for this. {inherited}")
            _launcher_store.take_place(os.environ, self._generation, self._trouble)
            self._trouble = ""
        self._end_at_exit()
        core = select_core()
        with contextlib.ExitStack() as checks:
            if communicator is None and not elastic:
                checks.enter_context(self._mpi_jobs.starting_despite_errors(core, os.environ))
            require_accepted(os.environ)
            placement = read_placement(os.environ)
        mpi = None
        start = self._generation
        if communicator is not None or (not elastic and _mpi.is_wanted(os.environ)):
            mpi = self._mpi_jobs.join(core, os.environ, placement.timeout, ranks or communicator)
            placement = place(placement, mpi)
            generation = self._mpi_jobs.next_start(mpi)
        elif elastic:
            # Ranks of an elastic job have started differently often; its rounds are the same for
            # all, and the first is 1.
            generation = _settings.ELASTIC_ROUND.read(os.environ)
            start = generation - 1
        else:
            chosen = _chosen_ranks.choose(ranks, placement.rank, placement.size)
            generation = meeting.enter_context(self._starts.number(placement.rank, chosen))
            if chosen:
                names = f"{_chosen_ranks.meeting_of(chosen)}g{generation}/"
                hosts = _launcher_store.exchange_hosts(placement, chosen, names)
                placement = _chosen_ranks.place(placement, chosen, hosts)
        if mpi is None:
            placement = without_mpi(placement, os.environ)
        if self._generation == 0:
            if not core.fits and placement.local_rank == 0:
                _standard_error.warn(core.misfit())
            unused = describe_unused(os.environ, mpi=mpi is not None)
            if placement.rank == 0:
                for line in unused:
                    _standard_error.warn(f"horovod: {line}")
            if placement.size == 1 and (lone := _mpi.describe_lone_tasks(os.environ)):
                _standard_error.warn(f"horovod: {lone}")
        self._generation += 1
        first = ranks[0] if ranks else 0
        if communicator is not None:
            first = max(0, *numbers_in_world(communicator, [0]))
        timeline = _timeline.recorded_from_start(os.environ, placement.rank, start, first)
        autotune_log = _timeline.autotune_log(os.environ, start, first)
        try:
            runtime = start_runtime(core, placement, generation, mpi, timeline, autotune_log)
        except HorovodInternalError as error:
            if not elastic:
                if inherited := describe_inherited_place(os.environ):
                    text = f"{str(error).rstrip('.')}. {inherited}"
                    raise HorovodInternalError(text) from error
                raise
            self._trouble = str(error)
            _standard_error.say(f"{self._trouble.rstrip('.')}. Asking for a new place.")
            return None
        return Member(
            runtime,
            placement,
            core,
            os.getpid(),
            process_sets={0: list(range(placement.size))},
            dynamic_process_sets=placement.dynamic_process_sets,
            mpi=mpi,
            generation=generation,
        )

    def _end_at_exit(self) -> None:
        if not self._ends_at_exit:
            atexit.register(self._leave_for_good)
            self._ends_at_exit = True

    def _leave_for_good(self) -> None:
        self.stop()
        if os.getpid() != self._process:
            return
        self._mpi_jobs.finalize()
        _wait_for_threads()

    def stop(self) -> None:
        """Leaves the job; what is pending fails on all ranks. Does nothing when none is joined.

        By a signal's handler within `start`: as soon as it is joined.
        """
        if self._in_fork():
            return
        # Whoever joins anew meanwhile waits: operations still use the memory of the old job.
        with self._lock:
            if self._changing:
                self._end_wanted = True
                return
            self._put_off = None
            member = self._member
            if member is None:
                return
            with self._change():
                tell_no_children(os.environ)
                self._become(None)
                for process_set in member.registered:
                    process_set.process_set_id = None
                member.runtime.shutdown()
                if member.mpi is not None:
                    self._mpi_jobs.failed = member.runtime.has_failed
                for ended in self._on_end:
                    ended()

    def require_joined(self) -> None:
        """Joins a job if calls of `init()` have been put off; raises as `member`."""
        with self._lock:
            if (put_off := self._put_off) is not None:
                put_off.make_good()

    def _in_fork(self) -> bool:
        """Whether the job was joined by the process that this one is a fork of.

        The lock may be held there, by a thread that does not exist here.
        """
        member = self._member
        return member is not None and member.process != os.getpid()

    @property
    def started(self) -> bool:
        """Whether `init()` has been called, and its job not been left since."""
        return self._member is not None or self._put_off is not None

    @property
    def parent(self) -> ParentRank | None:
        """The rank whose place this process answers with, which is its child and in no job."""
        put_off = self._put_off
        return None if put_off is None else put_off.parent

    @property
    def place(self) -> Placement | ParentRank:
        """Where this process stands among the ranks.

        Raises:
            ValueError: `init()` has not been called.
        """
        return self.parent or self.member.placement

    @property
    def current(self) -> Member | None:
        """This process's membership, if it has any now; another thread may end it at any time."""
        return self._member

    @property
    def member(self) -> Member:
        """This process's membership.

        A fork keeps its parent's: what rank it is may be asked there, as data loaders do. Calls of
        `init()` that have been put off are made good.

        Raises:
            ValueError: `init()` has not been called.
            RuntimeError: this is a child of a rank, and cannot communicate.
            HorovodInternalError: the children of other ranks have not come in time.
        """
        if self._member is None:
            self.require_joined()
        member = self._member  # once: another thread may end it
        if member is None:
            raise ValueError(NOT_INITIALIZED)
        return member


def _wait_for_threads() -> None:
    """Lets threads come back from the core, where they have learnt that the job has ended.

    Whoever does so when the interpreter has begun to end aborts the process.
    """
    deadline = time.monotonic() + _LEAVING_SECONDS
    outside = 0  # times in a row that none was seen inside, as between two calls
    while outside < _TIMES_OUTSIDE and threading.active_count() > 1:
        if time.monotonic() > deadline:
            return
        outside = 0 if _bindings.threads_inside() else outside + 1
        time.sleep(0.001)


SESSION = Session()
