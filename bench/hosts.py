"""Allreduce between hosts, which are network namespaces, against one pair of TCP streams.

    python bench/hosts.py [--mib 64] [--rounds 9] [--placement 1,1]

The ranks of the first two hosts hold a pair of plain sockets besides, one for each direction. In
turns, both move as many bytes to the other side as an allreduce between two hosts has to, and all
ranks reduce; the ratio of the two times says how much of the network the allreduce gets.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import horovod.array as hvd
from horovod._session import SESSION

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from collective.networks import missing, network_of

MIB = 1 << 20
CHUNK = MIB


class StreamPair:
    """Two sockets between rank 0 and one rank of another host, one for each direction."""

    def __init__(self, other: int, nbytes: int) -> None:
        self._rank = hvd.rank()
        self._nbytes = nbytes
        # As much memory as an allreduce of so many bytes reads and writes.
        self._taken = memoryview(bytearray(nbytes))
        self._given = memoryview(bytearray(nbytes))
        self._sockets: list[socket.socket] = []
        listener = socket.create_server((os.environ["HOROVOD_HOSTNAME"], 0))
        addresses = hvd.allgather_object(listener.getsockname()[:2])
        if self._rank == 0:
            self._sockets = [listener.accept()[0], listener.accept()[0]]
        elif self._rank == other:
            self._sockets = [socket.create_connection(addresses[0]) for _ in range(2)]
        listener.close()

    def exchange(self) -> None:
        """Sends and receives at once."""
        if not self._sockets:
            return
        outgoing, incoming = self._sockets if self._rank == 0 else self._sockets[::-1]
        sender = threading.Thread(target=self._send, args=(outgoing,))
        sender.start()
        taken = 0
        while taken < self._nbytes:
            taken += incoming.recv_into(self._taken[taken : taken + CHUNK])
        sender.join()

    def _send(self, outgoing: socket.socket) -> None:
        for start in range(0, self._nbytes, CHUNK):
            outgoing.sendall(self._given[start : start + CHUNK])


def seconds_of(work: Callable[[], object]) -> float:
    """How long the slowest rank takes."""
    hvd.barrier()
    start = time.perf_counter()
    work()
    own = np.array([time.perf_counter() - start])
    return float(hvd.allreduce(own, op=hvd.Max)[0])


def measure(options: argparse.Namespace, placement: Sequence[int]) -> None:
    """The part of one rank; rank 0 writes down what came out."""
    hvd.init()
    nbytes = options.mib * MIB
    values = np.zeros(nbytes // 4, np.float32)
    pair = StreamPair(placement[0] if len(placement) > 1 else 1, nbytes)
    plain, ours = [], []
    for turn in range(options.rounds + 1):
        pair_seconds = seconds_of(pair.exchange)
        own_seconds = seconds_of(lambda: hvd.allreduce_(values, op=hvd.Sum))
        if turn:  # the first one warms up
            plain.append(pair_seconds)
            ours.append(own_seconds)
    if hvd.rank() == 0:
        result = {
            "transport": SESSION.member.runtime.transport,
            "streams_ms": 1000 * statistics.median(plain),
            "allreduce_ms": 1000 * statistics.median(ours),
            "ratio": statistics.median(a / b for a, b in zip(plain, ours, strict=True)),
            "best_ratio": min(plain) / min(ours),
        }
        Path(options.output).write_text(json.dumps(result))


def launch(options: argparse.Namespace, placement: Sequence[int]) -> None:
    """Makes the hosts and starts the ranks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with network_of(
            len(placement), folder, congestion_control=options.congestion_control
        ) as network:
            output = folder / "result.json"
            words = ["-np", str(sum(placement)), "-H", network.slots(placement), sys.executable]
            words += [str(Path(__file__).resolve()), "--mib", str(options.mib)]
            words += ["--rounds", str(options.rounds), "--output", str(output)]
            words += ["--placement", ",".join(map(str, placement))]
            subprocess.run(
                network.inside(0, sys.executable, "-m", "horovod.runner", *words),
                check=True,
                env={**os.environ, "PATH": network.path},
                timeout=1800,
            )
            result = json.loads(output.read_text())
    load = os.getloadavg()[0]
    print(
        f"{len(placement)} hosts with {','.join(map(str, placement))} ranks, {options.mib} MiB,"
        f" {result['transport']}: streams {result['streams_ms']:.1f} ms, allreduce"
        f" {result['allreduce_ms']:.1f} ms, ratio {result['ratio']:.2f}"
        f" (of the best rounds {result['best_ratio']:.2f}), load {load:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--placement", action="append", help="ranks of each host; repeatable")
    # Most systems have CUBIC, which a namespace may not always choose; the two do alike here.
    parser.add_argument(
        "--congestion-control", default="reno", help="of TCP; '' for this machine's (reno)"
    )
    parser.add_argument("--output", help=argparse.SUPPRESS)
    options = parser.parse_args()
    placements = [
        [int(count) for count in text.split(",")] for text in options.placement or ["1,1"]
    ]
    if options.output:
        measure(options, placements[0])
        return
    if reason := missing():
        sys.exit(f"bench: error: no network namespaces: {reason}")
    for placement in placements:
        launch(options, placement)


if __name__ == "__main__":
    main()
