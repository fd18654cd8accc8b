"""Allreduce through horovod.torch against torch.distributed's Gloo, as ratios from one run.

    python bench/allreduce.py

starts two ranks on this machine with horovodrun. Both libraries live in the same processes, reduce
the same tensor, and take turns round by round, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist

import horovod.torch as hvd
from horovod._session import SESSION
from turns.arguments import parse_sizes, positive, size_name
from turns.options import cpu_name

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Start values that stay normal numbers while sums of sums grow, and how far they may grow (bits).
START = {"float32": 2.0**-100, "float16": 2.0**-13, "bfloat16": 2.0**-100}
GROWTH = {"float32": 220, "float16": 27, "bfloat16": 220}
DEFAULT_SIZES = "4,64,1KiB,16KiB,256KiB,1MiB,4MiB,16MiB,64MiB"
BLOCK_SECONDS = 0.03


@dataclass(frozen=True)
class Library:
    """One of the two that are compared."""

    name: str
    allreduce: Callable[[torch.Tensor], object]
    barrier: Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured at one size.

    Attributes:
        nbytes: size of the tensor.
        ours: seconds for each call, one value for each round, of the slowest rank.
        gloo: the same for Gloo.
    """

    nbytes: int
    ours: list[float]
    gloo: list[float]

    def ratio(self) -> float:
        """How many times as long Gloo takes, by medians."""
        return statistics.median(self.gloo) / statistics.median(self.ours)

    def ratio_range(self) -> tuple[float, float]:
        """The quartiles of the ratio over the rounds: how far to trust it."""
        ratios = sorted(gloo / ours for ours, gloo in zip(self.ours, self.gloo, strict=True))
        return ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]


class WrongResultError(Exception):
    """A library returned another sum than the ranks contributed."""


def facts(options: argparse.Namespace) -> dict[str, str | int]:
    """The machine and what runs on it, for the header."""
    runtime = SESSION.member.runtime
    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "ranks": hvd.size(),
        "dtype": options.dtype,
        "rounds": options.rounds,
        "transport": runtime.transport,
        "level": runtime.isa,
    }


def join_gloo() -> None:
    """Joins the ranks in a Gloo group as well; its store takes a free port of the loopback."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    connect = dist.TCPStore  # type: ignore[attr-defined]  # documented, but not in torch's __all__
    rank, size = hvd.rank(), hvd.size()
    store = connect("127.0.0.1", 0, is_master=True, wait_for_workers=False) if rank == 0 else None
    port = torch.tensor([store.port if store is not None else 0])
    port = hvd.broadcast(port, root_rank=0, name="bench.port")
    if store is None:
        store = connect("127.0.0.1", int(port.item()), is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)


def slowest(seconds: Sequence[float]) -> list[float]:
    """The elementwise maximum over the ranks."""
    tensor = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return [float(value) for value in tensor.tolist()]


def timed(library: Library, tensor: torch.Tensor, start: float, repetitions: int) -> float:
    """Seconds for each of some calls in a row, on this rank."""
    tensor.fill_(start)
    library.barrier()
    before = time.perf_counter()
    for _ in range(repetitions):
        library.allreduce(tensor)
    return (time.perf_counter() - before) / repetitions


def check(library: Library, tensor: torch.Tensor) -> None:
    """Compares one sum with what the ranks put in.

    Raises:
        WrongResultError: it is another one.
    """
    tensor.fill_(float(hvd.rank() + 1))
    library.allreduce(tensor)
    expected = hvd.size() * (hvd.size() + 1) / 2
    if not bool((tensor == expected).all()):
        raise WrongResultError(f"{library.name}: a sum of {tensor.numel()} elements is wrong")


def measure(nbytes: int, options: argparse.Namespace) -> Row:
    """Measures one size; all ranks call it alike."""
    dtype = DTYPES[options.dtype]
    tensor = torch.empty(max(1, nbytes // dtype.itemsize), dtype=dtype)

    def allreduce(tensor: torch.Tensor) -> None:
        hvd.allreduce_(tensor, op=hvd.Sum, name=f"bench.{nbytes}")

    ours = Library("horovod", allreduce, hvd.barrier)
    gloo = Library("Gloo", dist.all_reduce, dist.barrier)
    start = START[options.dtype]
    most = int(GROWTH[options.dtype] / math.log2(max(2, hvd.size())))
    repetitions = {}
    for library in (ours, gloo):
        check(library, tensor)
        once = slowest([timed(library, tensor, start, 3)])[0]
        repetitions[library.name] = min(most, max(1, int(BLOCK_SECONDS / once)))
    seconds: dict[str, list[float]] = {ours.name: [], gloo.name: []}
    for _ in range(options.rounds):
        for library in (ours, gloo):
            one = timed(library, tensor, start, repetitions[library.name])
            seconds[library.name].append(one)
    return Row(nbytes, slowest(seconds[ours.name]), slowest(seconds[gloo.name]))


def table(header: Mapping[str, str | int], rows: Sequence[Row]) -> str:
    what = "{dtype}, {ranks} ranks on {cores} cores of {cpu}, load {load}"
    how = (
        "horovod: transport {transport}, level {level}; torch {torch}, Python {python};"
        " medians of {rounds} rounds, taken in turns"
    )
    title = f"{'size':>8}  {'horovod':>12}  {'Gloo':>12}  {'Gloo/horovod':>12}  {'quartiles':>15}"
    lines = ["allreduce, " + what.format_map(header), how.format_map(header), "", title]
    for row in rows:
        low, high = row.ratio_range()
        lines.append(
            f"{size_name(row.nbytes):>8}  {statistics.median(row.ours) * 1e6:9,.1f} µs"
            f"  {statistics.median(row.gloo) * 1e6:9,.1f} µs  {row.ratio():12.2f}"
            f"  {low:6.2f} .. {high:5.2f}"
        )
    return "\n".join(lines)


def as_json(header: Mapping[str, str | int], rows: Sequence[Row]) -> str:
    results = [{**asdict(row), "gloo_over_ours": row.ratio()} for row in rows]
    return json.dumps({"schema": 1, "facts": header, "unit": "seconds", "sizes": results}, indent=1)


def run_rank(options: argparse.Namespace) -> int:
    """One rank's part; rank 0 writes the results."""
    torch.set_num_threads(1)
    if options.transport is not None:
        os.environ["HOROVOD_TRANSPORT"] = options.transport
    hvd.init()
    if hvd.local_size() != hvd.size():
        print("this benchmark compares on one machine only", file=sys.stderr)
        return 2
    if options.ranks is not None and options.ranks != hvd.size():
        print(f"--ranks {options.ranks}, but {hvd.size()} ranks were started", file=sys.stderr)
        return 2
    join_gloo()
    header = facts(options)
    try:
        rows = [measure(nbytes, options) for nbytes in options.sizes]
    except WrongResultError as error:
        print(error, file=sys.stderr)
        return 1
    if hvd.rank() == 0:
        text = as_json(header, rows) if options.json else table(header, rows)
        if options.output is None:
            print(text)
        else:
            options.output.write_text(text + "\n", encoding="utf-8")
    dist.destroy_process_group()
    hvd.shutdown()
    return 0


def launch(arguments: Sequence[str], options: argparse.Namespace) -> int:
    """Starts the ranks and prints what rank 0 wrote, without horovodrun's line prefixes."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result")
        command = [sys.executable, "-m", "horovod.runner", "-np", str(options.ranks or 2)]
        command += [sys.executable, __file__, *arguments, "--output", str(result)]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            print(result.read_text(encoding="utf-8"), end="")
    return status


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Measure allreduce against Gloo on one machine.")
    parser.add_argument("--sizes", type=parse_sizes, default=DEFAULT_SIZES, help=DEFAULT_SIZES)
    parser.add_argument("--rounds", type=positive, default=15, help="turns of each library (15)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--ranks", type=positive, help="processes to start (2)")
    parser.add_argument("--transport", choices=("auto", "shm", "tcp"))
    parser.add_argument("--json", action="store_true", help="every round's figures, for programs")
    parser.add_argument("--output", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if "HOROVOD_RANK" in os.environ:
        return run_rank(options)
    return launch(arguments, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
