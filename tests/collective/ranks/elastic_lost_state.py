"""Loses the only worker that has a state, before the newcomer of its second round has got it.

Usage: elastic_lost_state.py FILE, which lists the hosts: one, and two from the fifth step on.
"""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import horovod.array as hvd
from horovod.common.elastic import ObjectState, run_fn


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main(hosts: Path) -> None:
    first = os.environ["HOROVOD_ELASTIC_WORKER"] == "0"
    process, come = hosts.with_suffix(".process"), hosts.with_suffix(".come")
    if first:
        process.write_text(str(os.getpid()))
    hvd.init()
    if not first:  # builds its model, or whatever it does between `init` and `run`
        come.touch()
        while is_there(int(process.read_text())):
            time.sleep(0.01)

    def be_lost() -> None:
        while not come.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)

    def train(state: Any) -> None:
        print(f"starts at step {state.steps}", flush=True)
        while first:
            state.steps += 1
            state.commit()
            if state.steps == 5:
                hosts.write_text("localhost:1\n127.0.0.1:1\n")

    def form_anew() -> None:
        hvd.shutdown()
        hvd.init()

    state = ObjectState(hvd.broadcast_object, hvd.rank, steps=0)
    if first:
        state.register_reset_callbacks([be_lost])
    run_fn(train, form_anew)(state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
