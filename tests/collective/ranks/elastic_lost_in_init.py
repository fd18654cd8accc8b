"""Loses a worker that has its place and has not connected with the others yet.

Usage: elastic_lost_in_init.py WORKER ROUND
"""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys
from collections.abc import MutableMapping
from typing import Any
from unittest import mock

import horovod.array as hvd
from horovod import _launcher_store
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError

take_place = _launcher_store.take_place


def take_place_and_be_lost(environment: MutableMapping[str, str], *rest: Any) -> None:
    take_place(environment, *rest)
    if environment["HOROVOD_ELASTIC_ROUND"] == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)


def form_anew() -> None:
    hvd.shutdown()
    hvd.init()


def train(state: Any) -> None:
    if sys.argv[2] == "2" and not state.broken:
        state.broken = True
        state.commit()
        raise HorovodInternalError("another round, please")
    print(f"{hvd.size()} train", flush=True)


def main() -> None:
    lost = os.environ["HOROVOD_ELASTIC_WORKER"] == sys.argv[1]
    with mock.patch.object(
        _launcher_store, "take_place", take_place_and_be_lost if lost else take_place
    ):
        hvd.init()
        run_fn(train, form_anew)(ObjectState(hvd.broadcast_object, hvd.rank, broken=False))


if __name__ == "__main__":
    main()
