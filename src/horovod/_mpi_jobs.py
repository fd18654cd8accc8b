"""The MPI jobs that this process has joined: one per communicator, for every `init()`."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from horovod import _chosen_settings, _mpi, _settings
from horovod._chosen_ranks import read_ranks
from horovod._loader import CoreLibrary, _bindings
from horovod._mpi import MpiNotFoundError
from horovod._placement import Placement
from horovod._setting_values import SettingError
from horovod._standard_error import say
from horovod.common.exceptions import HorovodInternalError

# The order of MPI's levels of thread support; their numbers differ by family.
SERIALIZED, MULTIPLE = 2, 3
_NO_RANK = -1  # where a process starts MPI, and meets nobody
_GRACE = 1.0  # seconds, in which an error that says more comes first
_LAST_WORDS = 1.0  # seconds for them, where nobody may read what a rank says


@dataclass
class MpiJobs:
    """MPI starts once in a process, and ends with it.

    Attributes:
        joined: communicators of mpi4py, tuples of the launcher's ranks, or None for all of these;
            and this process's membership in each.
        starts: how often a runtime has been started on each of them, by position.
        opened: the core library, the plug-in and the MPI that serve the process, once all is well
            with MPI itself: it has to be ended then, or the launcher ends the other ranks.
        alone: whether it serves no job, since `init()` has refused what this rank asked for.
        failed: whether the last job ended since a rank was lost, or could not go on.
        raised: whether the program ends by an exception.
    """

    joined: list[tuple[Any, "_bindings.MpiMembership"]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    opened: tuple[bytes, bytes, bytes] | None = None
    alone: bool = False
    failed: bool = False
    raised: bool = False

    def join(
        self, core: CoreLibrary, environment: Mapping[str, str], timeout: float, communicator: Any
    ) -> "_bindings.MpiMembership":
        """Waits for all ranks of a communicator, if that has not been done before.

        Args:
            core: the core library.
            environment: variables of the process.
            timeout: seconds to wait for the other ranks.
            communicator: mpi4py's, a tuple of some of the ranks that the launcher has started, or
                None for all of them.

        Raises:
            ValueError: this process is not among those ranks, or one of them does not exist.
            HorovodInternalError: no MPI can serve this process, or not all ranks come.
        """
        ranks = communicator if isinstance(communicator, tuple) else ()
        for known, membership in self.joined:
            if known is communicator or (ranks and known == ranks):
                return membership
        disabled = _settings.MPI_THREADS_DISABLE.read(environment)
        with self.starting_despite_errors(core, environment):
            try:
                choice, version = _mpi.find_mpi(core.file, environment)
            except MpiNotFoundError as error:
                raise HorovodInternalError(
                    f"{error}; or start the job by horovodrun, which needs no MPI"
                ) from error
        libraries = core.file, *choice.files
        try:
            with _ended_when_late(timeout):
                membership = _bindings.MpiMembership(
                    *libraries,
                    communicator=0 if ranks or communicator is None else _address_of(communicator),
                    ranks=ranks,
                    threads=SERIALIZED if disabled else MULTIPLE,
                    host=environment.get(_settings.HOSTNAME.name, ""),
                    timeout=timeout,
                )
        except ValueError:
            self.opened = libraries
            self.alone = False  # the others have their job without this rank
            raise
        except (OSError, _bindings.CollectiveError) as error:
            raise HorovodInternalError(f"MPI could not be started: {error}") from error
        self.opened = libraries
        self.alone = False
        launch = _mpi.read_launch(environment)
        if communicator is None and launch and launch.size not in (None, membership.size):
            raise HorovodInternalError(
                f"the launcher has started {launch.size} ranks, but {choice.library} ({version})"
                f" sees {membership.size}: it is not the launcher's MPI. Name the right one:"
                f" {_settings.MPI_LIBRARY.name}=/path/to/libmpi.so"
            )
        if not self.joined:
            self._hear_of_exceptions()
        self.joined.append((communicator, membership))
        self.starts.append(0)
        return membership

    @contextlib.contextmanager
    def starting_despite_errors(
        self, core: CoreLibrary, environment: Mapping[str, str]
    ) -> Iterator[None]:
        """Where the body fails in a rank of an MPI launcher, MPI starts before the error is raised.

        The other ranks start MPI, which waits for this one without a time limit; and a launcher
        need not end a job of whose ranks one ends before that (MPICH's does not), but does so when
        one ends within MPI.

        Args:
            core: the core library.
            environment: variables of the process, none of which has to be accepted.
        """
        others_wait = _mpi.others_wait(environment)
        # Before the body: of an MPI that fails there, nothing remains to be taken.
        maps = _mpi.read_maps() if others_wait else ""
        try:
            yield
        except (ValueError, HorovodInternalError) as error:
            if not self.joined and self.opened is None and others_wait:
                self._start_alone(core, environment, maps, str(error))
            raise

    def _start_alone(
        self, core: CoreLibrary, environment: Mapping[str, str], maps: str, reason: str
    ) -> None:
        """Starts the launcher's MPI if that is possible, whatever our variables say."""
        timeout = _settings.START_TIMEOUT.default
        with contextlib.suppress(SettingError):
            timeout = _chosen_settings.start_timeout(environment)
        named = {_settings.MPI_LIBRARY.name: ""}
        with contextlib.suppress(MpiNotFoundError, OSError, _bindings.CollectiveError):
            choice, _ = _mpi.find_mpi(core.file, {**environment, **named}, maps=maps)
            libraries = core.file, *choice.files
            try:
                with _ended_when_late(timeout, reason):
                    _bindings.MpiMembership(
                        *libraries,
                        communicator=0,
                        ranks=(_NO_RANK,),
                        threads=MULTIPLE,
                        timeout=timeout,
                    )
            except ValueError:
                self.opened = libraries
                self.alone = True
                self._hear_of_exceptions()

    def _hear_of_exceptions(self) -> None:
        before = sys.excepthook

        def note(
            kind: type[BaseException], error: BaseException, traceback: TracebackType | None
        ) -> None:
            self.raised = not hasattr(sys, "ps1")  # a prompt goes on
            before(kind, error, traceback)

        sys.excepthook = note

    def next_start(self, membership: "_bindings.MpiMembership") -> int:
        """Numbers the runtimes of a communicator, alike on all its ranks, whatever they ran."""
        position = next(i for i, (_, known) in enumerate(self.joined) if known is membership)
        number = self.starts[position]
        self.starts[position] += 1
        return number

    def finalize(self) -> None:
        """Ends MPI if a job of ours has started it; whoever else did ends it themselves.

        Not after a failure: `MPI_Finalize` waits for all ranks, and not every launcher ends them
        when one is lost (srun does by --kill-on-bad-exit alone). Those that do, hear of an
        exception at once in this way, whatever the other ranks are at; and of a program that has
        caught what `init()` refused, and says by its exit status that it has not succeeded.
        """
        self.joined.clear()
        self.starts.clear()
        if self.opened is not None and not (self.failed or self.raised):
            if self.alone:
                _bindings.mpi_finalize_if_all_is_well(*self.opened)
            else:
                _bindings.mpi_finalize(*self.opened)
        self.opened = None


@contextlib.contextmanager
def _ended_when_late(timeout: float, error: str = "") -> Iterator[None]:
    """Ends this process where MPI has not started in time: nothing brings a thread back from that.

    The launcher ends the other ranks then.

    Args:
        timeout: seconds.
        error: what has gone wrong in this rank before.
    """
    settled = threading.Lock()

    def complain() -> None:
        say(
            f"horovod: {error and error + '. And '}MPI has not started within {timeout:g} seconds,"
            " so that this rank ends: not all ranks that the launcher has started have called"
            " hvd.init() or MPI_Init, or one has ended without."
            f" {_settings.START_TIMEOUT.name} gives them more time"
        )
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()

    def end() -> None:
        if not settled.acquire(blocking=False):
            return
        with contextlib.suppress(RuntimeError):  # no thread can be started
            complaint = threading.Thread(target=complain, daemon=True)
            complaint.start()
            complaint.join(_LAST_WORDS)
        os._exit(1)

    timer = threading.Timer(timeout + _GRACE, end)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread can be started
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        settled.acquire()  # where this waits, the process ends


def _address_of(communicator: Any) -> int:
    """Where the handle of a communicator lies.

    Raises:
        TypeError: it is not mpi4py's.
    """
    from mpi4py import MPI  # noqa: PLC0415 - whoever has a communicator has imported it

    return int(MPI._addressof(communicator))  # noqa: SLF001 - mpi4py's documented way


def numbers_in_world(communicator: Any, ranks: Sequence[int]) -> list[int]:
    """What numbers ranks of a communicator have in MPI's world; below 0 those of another world."""
    from mpi4py import MPI  # noqa: PLC0415 - as in _address_of

    group, world = communicator.Get_group(), MPI.COMM_WORLD.Get_group()
    try:
        return list(MPI.Group.Translate_ranks(group, ranks, world))
    finally:
        group.Free()
        world.Free()


def read_comm(comm: Any) -> tuple[Any, tuple[int, ...]]:
    """What `init(comm=...)` was given: a communicator or None, and the ranks of a list.

    Raises:
        TypeError: it is something else.
        ValueError: the list is none of ranks.
    """
    if comm is None:
        return None, ()
    if hasattr(comm, "Get_rank"):
        _check_communicator(comm)
        return comm, ()
    if isinstance(comm, Sequence) and not isinstance(comm, str | bytes):
        return None, read_ranks(comm)  # none are all, as in Horovod
    raise TypeError(
        f"hvd.init(comm={comm!r}) needs a list of ranks, a communicator of mpi4py, or None for all"
        " ranks"
    )


def _check_communicator(comm: Any) -> None:
    """Refuses what is no group of ranks with this process among them.

    Raises:
        ValueError: the null communicator, or one of two groups.
    """
    if not comm:
        raise ValueError(
            "hvd.init(comm=MPI.COMM_NULL): the null communicator has no ranks; call init() where"
            " this process is in the communicator"
        )
    from mpi4py import MPI  # noqa: PLC0415 - as in _address_of

    if MPI.Is_initialized() and not MPI.Is_finalized() and comm.Is_inter():
        raise ValueError(
            "hvd.init(comm=...): an intercommunicator joins two groups of ranks; give that of one"
            " group, such as its Merge()"
        )


def place(placement: Placement, membership: "_bindings.MpiMembership") -> Placement:
    """The placement of a rank whose number comes from MPI."""
    return replace(
        placement,
        rank=membership.rank,
        size=membership.size,
        local_rank=membership.local_rank,
        local_size=membership.local_size,
        cross_rank=membership.cross_rank,
        cross_size=membership.cross_size,
        host=membership.host,
        rendezvous="",
        secret=b"",
    )
