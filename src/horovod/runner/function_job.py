"""A job whose ranks call a function, and whose results come back."""

import argparse
import copy
import sys
from typing import Any

from horovod._pickling import dump
from horovod._unpickling import MARK, load
from horovod.runner import parcels
from horovod.runner.exchange import FirstFailure
from horovod.runner.import_paths import WITHOUT_CURRENT_FOLDER, own_import_paths
from horovod.runner.job_start import start
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.run_task import FUNCTION, result_of

_ENTRY = f"{WITHOUT_CURRENT_FOLDER}; from horovod.runner.run_task import main; sys.exit(main())"


class _Exchange(FirstFailure):
    """What goes into the job's store before it starts, and what comes out when it has ended.

    Args:
        parcel: the function, behind a line that says where its modules are found.
        ranks: from how many ranks a result has to come.
    """

    def __init__(self, parcel: bytes, ranks: int) -> None:
        super().__init__()
        self._parcel = parcel
        self._ranks = ranks
        self._results: dict[int, bytes] = {}

    def before(self, store: RendezvousServer) -> None:
        """Offers the function."""
        for key, value in parcels.pack(FUNCTION, self._parcel):
            store.put(key, value)

    def after(self, store: RendezvousServer, failure: str | None, signalled: int | None) -> None:
        """Takes the results."""
        super().after(store, failure, signalled)
        for rank in range(self._ranks):
            if (found := parcels.unpack(result_of(rank), store.find)) is not None:
                self._results[rank] = found

    def results(self) -> list[Any]:
        """By rank.

        Raises:
            RuntimeError: some have not come.
            UnpicklingError: one comes from another Python, and cannot be loaded here.
        """
        missing = [rank for rank in range(self._ranks) if rank not in self._results]
        if missing:
            raise RuntimeError(_describe_missing(missing))
        return [
            load(result, f"rank {rank}", "the caller of horovod.run")
            for rank, result in sorted(self._results.items())
        ]


def _describe_missing(ranks: list[int]) -> str:
    listed = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
    return (
        f"No result came from {listed}, though the job ended with code 0: the function has ended"
        " its process there, as sys.exit(0) does, in place of returning; or, in an elastic job, the"
        " process was lost when others had returned."
    )


def call_on_ranks(args: argparse.Namespace) -> list[Any]:
    """Calls `run_func` without arguments on all ranks of the job that the other arguments describe.

    Returns:
        What it returned, by rank; in an elastic job of the first `min_num_proc` ranks, or
        `num_proc` where that is not set.

    Raises:
        PicklingError: it takes cloudpickle to send the function, which is not installed.
        KeyboardInterrupt: this process has got SIGINT.
        RuntimeError: a rank failed, or ended without a result, or another signal has come; the
            message says which.
        UnpicklingError: a result comes from another Python, and cannot be loaded here.
        ValueError: the arguments cannot be used.
    """
    ranks = args.min_num_proc or args.num_proc
    pickled = dump(args.run_func, for_other_program=True)
    parcel = own_import_paths().encode() + MARK + pickled
    exchange = _Exchange(parcel, ranks)
    job = copy.copy(args)
    job.command = [args.executable or sys.executable, "-c", _ENTRY]
    code = start(job, exchange)
    exchange.require_success(code)
    return exchange.results()
