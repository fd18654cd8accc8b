"""Starting and ending the runtime, who this rank is, and what is built in."""

import functools
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from horovod import _settings, _timeline
from horovod._gpu import gpu_support
from horovod._loader import _bindings, select_core
from horovod._mpi import MpiNotFoundError, find_mpi
from horovod._mpi_jobs import MULTIPLE, read_comm
from horovod._reduce_op import Adasum, Average, Max, Min, Product, Sum
from horovod._session import SESSION
from horovod._unused_settings import NO_MPI_JOB
from horovod.common import process_sets as _process_sets
from horovod.common.elastic import notification_manager
from horovod.common.process_sets import ProcessSet


def _mpi_threads() -> int | None:
    if (parent := SESSION.parent) is not None:
        return parent.mpi_threads
    member = SESSION.current
    return None if member is None or member.mpi is None else member.mpi.threads


def _join(communicator: Any, ranks: tuple[int, ...], sets: list[ProcessSet] | None) -> None:
    notification_manager.init()  # which hears of ranks that will not come
    joined = SESSION.start(communicator=communicator, ranks=ranks)
    if joined:
        _process_sets.global_process_set.mpi_comm = communicator
    if sets is None:
        return
    if joined:
        registered = False
        try:
            left_out = _process_sets.register(sets)
            registered = True
        finally:
            if not registered:
                SESSION.stop()
    else:
        left_out = _process_sets.look_up(sets)
    if left_out:  # as in Horovod, which does not say so
        warnings.warn(f"{left_out}; it is left out, and cannot be used", stacklevel=3)


class HorovodBasics:
    """The functions that every front end offers.

    Args:
        args: Horovod's callers pass where the extension lies; there is only one here.
    """

    Average, Sum, Adasum, Min, Max, Product = Average, Sum, Adasum, Min, Max, Product

    def __init__(self, *args: Any) -> None:
        self._location = args

    def init(
        self,
        comm: Any = None,
        process_sets: Sequence[ProcessSet | Iterable[int]] | str | None = None,
    ) -> None:
        """Joins the job; a second call looks up process sets, and does nothing else.

        A process that multiprocessing has started in a rank ("spawn", "forkserver") has that
        rank's place then, and joins a job, of such processes, when it communicates.

        Args:
            comm: None for all ranks that the launcher has started; a list of some of them, which
                are the job then, numbered in the order of the list; or a communicator of mpi4py,
                whose ranks are. Ranks that are not listed do not call this with the same list, but
                with one of their own or not at all.
            process_sets: the same on all ranks, but for communicators, which their members name:
                sets to register, each then has its number, or their ranks; one named twice, or of
                all ranks, is left out with a warning. Or "dynamic", which lets them be added and
                removed later, also after another `init()` of this process.

        Raises:
            TypeError: `comm` is something else.
            ValueError: a list in `comm`, or a process set, is not possible in this job.
            HorovodInternalError: not all ranks came in time, or named other process sets.
        """
        if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
            raise ValueError(
                f"process_sets={process_sets!r} is not accepted: pass a list of ProcessSet, or"
                ' "dynamic"'
            )
        communicator, ranks = read_comm(comm)
        if isinstance(process_sets, str):
            # For later calls of init(), too.
            os.environ[_settings.DYNAMIC_PROCESS_SETS.name] = "1"
            process_sets = None
        sets = [
            process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
            for process_set in process_sets or ()
        ]
        join = functools.partial(_join, communicator, ranks, None if process_sets is None else sets)
        if communicator is not None or not SESSION.put_off(join, adds=process_sets is not None):
            join()

    def shutdown(self) -> None:
        """Leaves the job. Happens by itself when the process ends."""
        SESSION.stop()

    def is_initialized(self) -> bool:
        """Whether `init` has been called, and `shutdown` not since."""
        return SESSION.started

    def start_timeline(
        self,
        file_path: "str | os.PathLike[str]",
        mark_cycles: bool = False,  # noqa: FBT001, FBT002 - Horovod's signature
        *,
        all_ranks: bool | None = None,
    ) -> None:
        """Begins to record operations, for Chrome's and Perfetto's viewers; may be called often.

        While one is being recorded, it only warns. Children of ranks record nothing.

        Args:
            file_path: where rank 0 writes to; a file that is there is replaced.
            mark_cycles: also when the coordinator has answered.
            all_ranks: whether the others record too, rank 1 to `trace.rank1.json` for
                `trace.json`; None for what HOROVOD_TIMELINE_ALL_RANKS says.

        Raises:
            ValueError: `init()` has not been called, or there can be no such path.
            TypeError: it is no path.
            OSError: the file cannot be written.
        """
        if SESSION.parent is not None:
            return
        member = SESSION.member
        member.require_own_process()
        if all_ranks is None:
            all_ranks = _settings.TIMELINE_ALL_RANKS.read(os.environ)
        rank = member.placement.rank
        base = _timeline.path_of(file_path)  # on all ranks, so that all refuse what is none
        if rank == 0 or all_ranks:
            path = _timeline.file_of(base, rank)
            try:
                member.runtime.start_timeline(os.fsencode(path), bool(mark_cycles))
            except ValueError as error:
                # Not all ranks may record, and one alone must not fail.
                warnings.warn(f"hvd.start_timeline({path!r}) is ignored: {error}", stacklevel=2)

    def stop_timeline(self) -> None:
        """Ends the recording and completes its file; does nothing when there is none.

        Raises:
            ValueError: `init()` has not been called.
            OSError: the file could not be written to its end.
        """
        if SESSION.parent is None:
            SESSION.member.runtime.stop_timeline()

    def size(self) -> int:
        """Number of ranks."""
        return SESSION.place.size

    def rank(self) -> int:
        """This rank, from 0."""
        return SESSION.place.rank

    def local_size(self) -> int:
        """Number of ranks on this host."""
        return SESSION.place.local_size

    def local_rank(self) -> int:
        """This rank among those of its host, from 0."""
        return SESSION.place.local_rank

    def cross_size(self) -> int:
        """Number of hosts that have this local rank."""
        return SESSION.place.cross_size

    def cross_rank(self) -> int:
        """This host among those that have this local rank, from 0."""
        return SESSION.place.cross_rank

    def is_homogeneous(self) -> bool:
        """Whether all hosts have the same number of ranks."""
        if (parent := SESSION.parent) is not None:
            return parent.is_homogeneous
        return SESSION.member.runtime.is_homogeneous

    def process_set_included(self, process_set_id: int = 0) -> bool:
        """Whether this rank is in the process set with a number; ValueError if there is none."""
        return _process_sets.process_set_included(process_set_id)

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        """The registered process sets: number to global ranks; callers of Horovod's use it."""
        return _process_sets.get_process_set_ids_and_ranks()

    def mpi_threads_supported(self) -> bool:
        """Whether MPI may be called from several threads at once.

        Raises:
            ValueError: the ranks have not met through MPI.
        """
        threads = _mpi_threads()
        if threads is None:
            raise ValueError(f"Horovod MPI is not enabled: {NO_MPI_JOB}")
        return threads == MULTIPLE

    def mpi_enabled(self) -> bool:
        """Whether the ranks of this job have met through MPI."""
        return _mpi_threads() is not None

    def mpi_built(self) -> bool:
        """Whether this build has plug-ins for MPI, and finds an MPI that opens here."""
        try:
            find_mpi(select_core().file)
        except MpiNotFoundError:
            return False
        return True

    def gloo_enabled(self) -> bool:
        """Whether the ranks meet without MPI, by the built-in controller."""
        return not self.mpi_enabled()

    def gloo_built(self) -> bool:
        """Whether there is an MPI-free controller: always, it is the built-in one."""
        return True

    def nccl_built(self) -> int:
        """NCCL's version code, 22707 for 2.27.7; 0 when this build or this machine has none."""
        support = gpu_support()
        if not support.kind:
            return 0
        version = _bindings.nccl_version(
            select_core().file, support.runtime_arguments()["nccl_libraries"]
        )
        return version if isinstance(version, int) else 0

    def ddl_built(self) -> bool:
        """Whether IBM's DDL is built in: it is not."""
        return False

    def ccl_built(self) -> bool:
        """Whether oneCCL is built in: it is not."""
        return False

    def cuda_built(self) -> bool:
        """Whether this build has code for NVIDIA's GPUs."""
        return gpu_support().kind == "cuda"

    def rocm_built(self) -> bool:
        """Whether this build has code for AMD's GPUs."""
        return gpu_support().kind == "hip"
