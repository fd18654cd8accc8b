"""Joins with lists of ranks, in turn with all ranks, and says what came of it."""

import array
import json
import os
import sys
from unittest import mock

import horovod.array as hvd
from horovod import _launcher_store
from horovod.common.basics import HorovodBasics
from horovod.runner.store_client import StoreClient

BASICS = HorovodBasics()
LAUNCHED = int(os.environ["HOROVOD_RANK"])


def total(ranks: list[int] | None) -> list[object]:
    """Joins, sums the launcher's ranks over all, and over a process set of the last one alone."""
    last = hvd.ProcessSet([len(ranks) - 1 if ranks else 3])
    BASICS.init(comm=ranks, process_sets=[last])
    sums = hvd.allreduce(array.array("f", [LAUNCHED] * 100_000), op=hvd.Sum)
    alone = [0.0]
    if last.included():
        alone = list(hvd.allreduce(array.array("f", [LAUNCHED]), op=hvd.Sum, process_set=last))
    hvd.barrier()
    places = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_size()]
    BASICS.shutdown()
    return [*places, sums[0], sums[-1], alone[0]]


def refusal(comm: object) -> str:
    try:
        BASICS.init(comm=comm)
    except (TypeError, ValueError, hvd.HorovodInternalError) as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def main() -> None:
    halves = [3, 1] if LAUNCHED in (1, 3) else [0, 2]
    said = [total(halves), total(halves), total(None)]
    if LAUNCHED in (0, 3):
        said += [total([0, 3])]
    said += [total([0, 1, 2, 3])]
    refusals = [refusal(comm) for comm in ([LAUNCHED, 9], [(LAUNCHED + 1) % 4], [1, 1], ["1"])]
    if LAUNCHED < 2:
        os.environ["HOROVOD_START_TIMEOUT"] = "0.5"
        # Which is for the other rank; the launcher may take longer to answer.
        with mock.patch.object(
            _launcher_store, "StoreClient", lambda address, secret, *_: StoreClient(address, secret)
        ):
            refusals.append(refusal([LAUNCHED, 2 + LAUNCHED]))
    sys.stdout.write(json.dumps([said, refusals]) + "\n")


if __name__ == "__main__":
    main()
