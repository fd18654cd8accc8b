"""A model on paper: what jobs of many ranks cost, from constants measured with few.

    python bench/scaling.py --json > measured.json
    python bench/scaling_model.py measured.json [--per-host 8] [--tcp-us 15] [--tcp-gbps 10]

A message of b bytes takes alpha + beta b. What follows are the steps that the library takes
(src/native/ops, src/native/runtime), counted; nothing of it was run with so many ranks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
RANKS = (8, 64, 256, 1024)

# Of src/native/ops/allreduce.cc, ahead.cc and hierarchical.cc, and of transport/shm/segment.cc.
PAIRS_BYTES = 64 * KIB
FLAT_BYTES = 16 * KIB
FLAT_TOTAL = 128 * KIB
HALVED_PART = 256 * KIB
WHOLE_BYTES = 16 * KIB
WHOLE_TOTAL = 128 * KIB
ONE_LANE = 16 * KIB
LARGEST_RING = 2 * MIB
LARGEST_OF_MORE = 512 * KIB
SMALLEST_RING = 16 * KIB
ALL_RINGS = 8 * MIB
SHORT_RING = 64 * KIB
ALL_SHORT_RINGS = 32 * MIB
ALL_POSTS = 8 * MIB
CHANNELS = 2
# Of src/native/runtime/control_tree.h.
MOST_DIRECT_RANKS = 32
USUAL_FANOUT = 16

# A request with one tensor and a name of 40 bytes, on the wire and in the coordinator's memory; and
# one that is asked for by its number.
FULL_REQUEST_BYTES = 110
KEPT_REQUEST_BYTES = 300
NUMBERED_REQUEST_BYTES = 9
# What a message between cores takes at least, however short: docs/performance.md, limits.
SHORTEST = 0.5e-6
OTHER_DESCRIPTORS = 32  # of a rank: libraries, its own wake-ups and listeners


@dataclass(frozen=True)
class Link:
    """What connects two ranks.

    Attributes:
        alpha: seconds that an empty message takes.
        beta: seconds for each byte.
    """

    alpha: float
    beta: float


@dataclass(frozen=True)
class Constants:
    """What was measured with few ranks, in seconds.

    Attributes:
        near: between ranks of a host.
        far: between hosts.
        agreement: from a call to its answer between two ranks.
        agreement_cpu: of rank 0's control thread, for each other rank.
        start: until two ranks have met.
        start_of_one: what each further rank adds.
    """

    near: Link
    far: Link
    agreement: float
    agreement_cpu: float
    start: float
    start_of_one: float


def pair_steps(ranks: int) -> int:
    """Steps of an allreduce in pairs; a rank beyond a power of two adds two."""
    power = ranks.bit_length() - 1
    return power + (0 if ranks == 1 << power else 2)


def flat_or_ring(ranks: int, nbytes: float, link: Link) -> float:
    """Seconds of an allreduce where every rank sends to all, or around a ring."""
    if nbytes <= FLAT_BYTES and nbytes * ranks <= FLAT_TOTAL:
        return (ranks - 1) * (link.alpha + link.beta * nbytes)
    return 2 * (ranks - 1) * (link.alpha + link.beta * nbytes / ranks)


def allreduce(ranks: int, nbytes: float, link: Link) -> float:
    """Seconds of an allreduce whose ranks are all connected alike."""
    if nbytes <= PAIRS_BYTES and pair_steps(ranks) < ranks - 1:
        return pair_steps(ranks) * (link.alpha + link.beta * nbytes)
    power = ranks.bit_length() - 1
    if 2 < ranks == 1 << power and FLAT_BYTES < nbytes <= ranks * HALVED_PART:
        return 2 * (power * link.alpha + (ranks - 1) / ranks * link.beta * nbytes)
    return flat_or_ring(ranks, nbytes, link)


def inside_a_host(ranks: int, nbytes: float, near: Link) -> float:
    """Seconds of reducing parts of a vector and gathering them: nobody waits for a third rank."""
    return 2 * (near.alpha + near.beta * nbytes * (ranks - 1) / ranks) if ranks > 1 else 0.0


def on_a_host(ranks: int, nbytes: float, near: Link) -> float:
    """Seconds of an allreduce on one host, where each rank may reduce a short vector whole."""
    if nbytes <= WHOLE_BYTES and nbytes * ranks <= WHOLE_TOTAL and ranks > 1:
        return near.alpha + near.beta * nbytes * (ranks - 1)
    return inside_a_host(ranks, nbytes, near)


def on_hosts(hosts: int, per_host: int, nbytes: float, constants: Constants) -> float:
    """Seconds of an allreduce that reduces inside the hosts first.

    Args:
        hosts: that the ranks are on.
        per_host: ranks of each; they share its way to the others.
        nbytes: of the vector.
        constants: of the machine.
    """
    if hosts == 1:
        return on_a_host(per_host, nbytes, constants.near)
    lanes = 1 if nbytes <= ONE_LANE else per_host
    part = nbytes / lanes
    inside = inside_a_host(per_host, nbytes, constants.near)
    return inside + allreduce(hosts, part, replace(constants.far, beta=lanes * constants.far.beta))


def heard_on_the_way(ranks: int) -> list[int]:
    """How many are heard by one, and by one of these, and so on, of ranks that one is to hear."""

    def room(fanout: int, levels: int) -> int:
        return sum(fanout**level for level in range(1, levels + 1))

    heard = []
    while ranks > 0:
        levels = next(n for n in range(1, ranks + 1) if room(USUAL_FANOUT, n) >= ranks)
        groups = next(n for n in range(1, ranks + 1) if room(n, levels) >= ranks)
        heard.append(groups)
        ranks = -(-ranks // groups) - 1
    return heard


def control_levels(ranks: int, per_host: int) -> list[int]:
    """How many ranks are heard by rank 0, and by each next one on the longest way to a rank."""
    if ranks <= MOST_DIRECT_RANKS:
        return [ranks - 1]
    hosts, inside = heard_on_the_way(ranks // per_host - 1), heard_on_the_way(per_host - 1)
    return [heard + sum(inside[:1]) for heard in hosts] + inside


def agreement(heard: Sequence[int], constants: Constants) -> float:
    """Seconds from a call to its answer.

    Args:
        heard: how many ask each rank on the longest way, and are answered by it.
        constants: of the machine.
    """
    return len(heard) * constants.agreement + (sum(heard) - len(heard)) * constants.agreement_cpu


def start(ranks: int, constants: Constants) -> float:
    """Seconds from the last `init()` to the first agreement."""
    return constants.start + (ranks - 2) * constants.start_of_one


def connections(ranks: int, per_host: int) -> int:
    """Data connections of a rank: to every rank of another host."""
    return ranks - per_host


def descriptors_of_rank_0(ranks: int, per_host: int) -> int:
    """Its data connections, the control connections of all, the processes of its host."""
    return connections(ranks, per_host) + (ranks - 1) + (per_host - 1) + OTHER_DESCRIPTORS


def _share(of_all: int, rings: int, largest: int) -> int:
    return min(max(1 << ((of_all // rings).bit_length() - 1), SMALLEST_RING), largest)


def segment_bytes(per_host: int) -> int:
    """Shared memory of a host, if all of it is used: of each channel a ring for each ordered pair,
    and for each of more than two ranks one that all others read.
    """
    if per_host == 1:
        return 0
    pairs = per_host * (per_host - 1)
    if per_host == 2:
        return CHANNELS * pairs * LARGEST_RING
    ring = max(
        _share(ALL_RINGS, pairs, LARGEST_OF_MORE), _share(ALL_SHORT_RINGS, pairs, SHORT_RING)
    )
    return CHANNELS * (pairs * ring + per_host * _share(ALL_POSTS, per_host, LARGEST_RING))


def requests_bytes(ranks: int, tensors: int) -> int:
    """The coordinator's memory for tensors that all ranks ask for in full at once."""
    return ranks * tensors * KEPT_REQUEST_BYTES


def _row(jobs: Sequence[Mapping[str, Any]], **wanted: object) -> Mapping[str, Any]:
    for job in jobs:
        if all(job.get(name) == value for name, value in wanted.items()):
            return job
    raise ValueError(f"bench/scaling.py has not measured {wanted}; run all of its parts")


def _link(job: Mapping[str, Any]) -> Link:
    """Of two ranks, whose allreduce of a large vector sends two halves."""
    small, large = (_row(job["rows"], bytes=nbytes)["async"] for nbytes in (4, 16 * MIB))
    return Link(max(job["message"], SHORTEST), max(large - small, 1e-6) / (16 * MIB))


def fit(measured: Mapping[str, Any]) -> Constants:
    """The constants of what `bench/scaling.py --json` has printed.

    Raises:
        ValueError: parts of it are missing.
    """
    ranks, hosts = measured.get("ranks", ()), measured.get("hosts", ())
    far = _row(hosts, hosts=2, ranks=2)
    over_tcp = sorted((job for job in ranks if job["transport"] == "tcp"), key=lambda j: j["ranks"])
    if len(over_tcp) < 2:
        raise ValueError("bench/scaling.py has not measured two numbers of ranks over tcp")
    few, many = over_tcp[0], over_tcp[-1]
    more = many["ranks"] - few["ranks"]
    return Constants(
        near=_link(_row(ranks, ranks=2, transport="shm")),
        far=_link(far),
        agreement=_row(far["rows"], bytes=4)["async"] - far["message"],
        agreement_cpu=max(many["control_cpu"] - few["control_cpu"], 0) / more,
        start=few["start"],
        start_of_one=max(many["start"] - few["start"], 0) / more,
    )


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.0f} µs"
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _bytes(count: float) -> str:
    return f"{count / MIB:,.0f} MiB" if count < 1024 * MIB else f"{count / MIB / 1024:,.1f} GiB"


def report(constants: Constants, per_host: int = 8, ranks: Sequence[int] = RANKS) -> list[str]:
    """The constants, and a table with a column for each number of ranks.

    Args:
        constants: measured or stated.
        per_host: ranks of each host.
        ranks: multiples of it.
    """
    near, far = constants.near, constants.far
    hosts = [count // per_host for count in ranks]
    large = 100 * MIB

    def line(name: str, *cells: str) -> str:
        return f"| {name} | {' | '.join(cells)} |"

    def latency(count: int, few: int) -> str:
        inside = inside_a_host(per_host, 4, near)
        return _time(inside + (flat_or_ring(few, 4, far) if count > per_host else 0))

    pairs = list(zip(ranks, hosts, strict=True))
    found = (
        f"shared memory {near.alpha * 1e6:.1f} µs and {1e-9 / near.beta:.1f} GB/s, between hosts"
        f" {far.alpha * 1e6:.0f} µs and {1e-9 / far.beta:.1f} GB/s; agreement"
        f" {constants.agreement * 1e6:.0f} µs, {constants.agreement_cpu * 1e6:.1f} µs more for each"
        f" rank; start {_time(constants.start)}, {_time(constants.start_of_one)} more for each rank"
    )
    return [
        found,
        "",
        line(f"ranks, {per_host} on each host", *(f"{count:,}" for count in ranks)),
        f"|---|{'---|' * len(ranks)}",
        line(
            "agreement",
            *(_time(agreement(control_levels(count, per_host), constants)) for count in ranks),
        ),
        line(
            "... if rank 0 heard every rank",
            *(_time(agreement([count - 1], constants)) for count in ranks),
        ),
        line("allreduce 4 B", *(_time(on_hosts(few, per_host, 4, constants)) for few in hosts)),
        line("... if every host sent to all", *(latency(count, few) for count, few in pairs)),
        line("allreduce 1 MiB", *(_time(on_hosts(few, per_host, MIB, constants)) for few in hosts)),
        line(
            "allreduce 100 MiB",
            *(_time(on_hosts(few, per_host, large, constants)) for few in hosts),
        ),
        line(
            "... bytes of the vector a second",
            *(f"{large / on_hosts(few, per_host, large, constants) / 1e9:.2f} GB" for few in hosts),
        ),
        line("data connections of a rank", *(f"{connections(c, per_host):,}" for c in ranks)),
        line("descriptors of rank 0", *(f"{descriptors_of_rank_0(c, per_host):,}" for c in ranks)),
        line("start", *(_time(start(count, constants)) for count in ranks)),
        line(
            "rank 0's memory for 1,000 names in full",
            *(_bytes(requests_bytes(count, 1000)) for count in ranks),
        ),
        line("shared memory of a host", *(_bytes(segment_bytes(per_host)) for _ in ranks)),
    ]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What jobs of many ranks would cost.")
    parser.add_argument("measured", type=Path, help="what `bench/scaling.py --json` has printed")
    parser.add_argument("--per-host", type=int, default=8, help="ranks of each host (8)")
    parser.add_argument("--tcp-us", type=float, help="another network: microseconds a message")
    parser.add_argument("--tcp-gbps", type=float, help="likewise: gigabytes a second")
    options = parser.parse_args(arguments)
    try:
        constants = fit(json.loads(options.measured.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        print(f"bench: error: {options.measured}: {error}", file=sys.stderr)
        return 2
    far = constants.far
    if options.tcp_us is not None:
        far = replace(far, alpha=options.tcp_us * 1e-6)
    if options.tcp_gbps is not None:
        far = replace(far, beta=1e-9 / options.tcp_gbps)
    print("\n".join(report(replace(constants, far=far), options.per_host)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
