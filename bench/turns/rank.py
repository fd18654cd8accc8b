"""One rank of a group: does what the conductor asks for, and sleeps in between."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import time
from pathlib import Path
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

from turns.cases import Calls, Case, Work


def timed(calls: Calls, work: Work, repetitions: int) -> float:
    """Seconds for each of some calls in a row."""
    work.reset()
    calls.barrier()
    before = time.perf_counter()
    for _ in range(repetitions):
        work.call()
    return (time.perf_counter() - before) / repetitions


def serve(calls: Calls, lines: IO[str]) -> None:
    """Answers one line for each line, until the other side closes."""
    works: dict[str, Work] = {}

    def say(answer: Any) -> None:
        lines.write(json.dumps(answer) + "\n")
        lines.flush()

    say({"rank": calls.rank, "size": calls.size, "facts": calls.facts()})
    while line := lines.readline():
        order = json.loads(line)
        verb, label = order["verb"], order.get("label", "")
        if verb == "prepare":
            works[label] = calls.prepare(Case(**order["case"]))
            say(works[label].check())
        elif verb == "time":
            say(timed(calls, works[label], order["repetitions"]))
        elif verb == "drop":
            works.clear()
            say(None)
        elif verb == "close":
            calls.close()
            say(None)
            return


def main() -> None:
    library, path = sys.argv[1:]
    calls = cast("Calls", importlib.import_module(f"turns.{library}_calls").join())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        serve(calls, connection.makefile("rw", encoding="utf-8"))


if __name__ == "__main__":
    main()
