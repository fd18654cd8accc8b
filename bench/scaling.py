"""How cost grows with ranks, tensors in flight and hosts, beside Gloo; and the model that follows.

    python bench/scaling.py [--parts ranks,tensors,hosts,many] [--rounds 7] [--json]
    python bench/scaling.py --parts hosts --hosts 2,4 --delay-ms 1
    python bench/scaling.py --json > measured.json; python bench/scaling_model.py measured.json

Ranks share this machine's cores however many they are, and hosts are network namespaces on it, so
that the figures show work that grows, not machines that work side by side. Both libraries live in
the same processes and take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import scaling_model
from turns.arguments import positive, size_name
from turns.options import cpu_name

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from collective.networks import Network, missing, network_of

WORK = Path(__file__).resolve().parent / "turns" / "scaling_work.py"
PARTS = ("ranks", "tensors", "hosts", "many")
RANKS = (2, 4, 8)
MANY = (32, 64, 128)  # all on this machine, eight of them on what each takes for a host
HOSTS = (1, 2, 3, 4)
SECONDS = 600  # that one job may take


def parse_parts(text: str) -> list[str]:
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(PARTS)}")
    return parts


def parse_numbers(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def run_job(
    options: argparse.Namespace,
    part: str,
    ranks: int,
    *,
    transport: str = "auto",
    network: Network | None = None,
    per_host: Sequence[int] = (),
) -> dict[str, Any]:
    """Starts one job and returns what its rank 0 wrote down.

    Raises:
        SystemExit: it failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "result.json")
        words = [sys.executable, "-m", "horovod.runner", "-np", str(ranks)]
        environment = {**os.environ, "HOROVOD_TRANSPORT": transport}
        if network is not None:
            words = network.inside(0, *words, "-H", network.slots(per_host))
            environment["PATH"] = network.path
        words += [sys.executable, str(WORK), part, "--rounds", str(options.rounds)]
        words += ["--most-tensors", str(options.most_tensors), "--output", str(output)]
        words += ["--no-gloo"] if options.no_gloo else []
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        if done.returncode != 0:
            sys.exit(f"bench: error: {ranks} ranks failed:\n{done.stderr}")
        return {"load": os.getloadavg()[0], **json.loads(output.read_text())}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All parts that are asked for."""
    result: dict[str, Any] = {
        "schema": 1,
        "unit": "seconds",
        "facts": {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0))},
    }
    if "ranks" in options.parts:
        result["ranks"] = [
            run_job(options, "sizes", ranks, transport=transport)
            for transport in ("auto", "tcp")
            for ranks in options.ranks
        ]
    if "tensors" in options.parts:
        result["tensors"] = run_job(options, "tensors", 2)
    if "many" in options.parts:
        result["many"] = [run_job(options, "many", ranks) for ranks in options.many]
    if "hosts" in options.parts:
        if reason := missing():
            sys.exit(f"bench: error: no network namespaces: {reason}")
        result["hosts"] = []
        for each in (1, 2):
            for hosts in options.hosts:
                if hosts * each == 1:
                    continue
                with (
                    tempfile.TemporaryDirectory() as name,
                    network_of(
                        hosts,
                        Path(name),
                        delay_ms=options.delay_ms,
                        congestion_control=options.congestion_control,
                    ) as net,
                ):
                    job = run_job(
                        options, "sizes", hosts * each, network=net, per_host=[each] * hosts
                    )
                result["hosts"].append({"hosts": hosts, **job})
    return result


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:,.0f} µs" if seconds < 0.01 else f"{seconds * 1e3:,.1f} ms"


def _ratio(row: dict[str, Any], ours: str) -> str:
    return f"{row[ours] / row['gloo']:.2f}" if "gloo" in row else "-"


def size_lines(jobs: Sequence[dict[str, Any]], title: str) -> list[str]:
    """A table of jobs whose ranks reduced single tensors."""
    lines = [
        f"| {title} | transport | work | blocking | asynchronous | Gloo | blocking / Gloo |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        name = str(job["ranks"])
        if "hosts" in job:
            name = f"{job['hosts']} x {job['ranks'] // job['hosts']}"
        for row in job["rows"]:
            work = f"allreduce {size_name(row['bytes'])}" if "bytes" in row else row["work"]
            cells = [name, job["transport"], work, _time(row["ours"]), _time(row.get("async"))]
            cells += [_time(row.get("gloo")), _ratio(row, "ours")]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def tensor_lines(job: dict[str, Any]) -> list[str]:
    lines = [
        "| tensors of 1 KiB in flight | the first time | then | for each | Gloo | ours / Gloo |",
        "|---|---|---|---|---|---|",
    ]
    for row in job["rows"]:
        each = _time(row["ours"] / row["tensors"])
        cells = [f"{row['tensors']:,}", _time(row["first"]), _time(row["ours"]), each]
        cells += [_time(row.get("gloo")), _ratio(row, "ours")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def many_lines(jobs: Sequence[dict[str, Any]]) -> list[str]:
    columns = ["barrier, rank 0's processor", "161 tensors, likewise", "barrier by the clock"]
    head = "".join(f" {column} | through others |" for column in columns)
    lines = [f"| ranks, 8 a host |{head}", "|---|---|---|---|---|---|---|"]
    for job in jobs:
        cells = [str(job["ranks"])]
        for work in ("barrier", "step", "barrier_clock"):
            cells += [_time(job[way][work]) for way in ("direct", "collected")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def table(measured: dict[str, Any]) -> str:
    facts = measured["facts"]
    lines = [f"{facts['cores']} cores of {facts['cpu']}; medians, taken in turns", ""]
    jobs = [*measured.get("ranks", ()), *measured.get("hosts", ())]
    if "ranks" in measured:
        lines += [*size_lines(measured["ranks"], "ranks"), ""]
    if "tensors" in measured:
        jobs.append(measured["tensors"])
        lines += [*tensor_lines(measured["tensors"]), ""]
    if "hosts" in measured:
        lines += [*size_lines(measured["hosts"], "hosts x ranks"), ""]
    if "many" in measured:
        jobs += measured["many"]
        lines += [*many_lines(measured["many"]), ""]
    loads = sorted(job["load"] for job in jobs)
    lines.append(f"Load of the machine, this benchmark included: {loads[0]:.0f} to {loads[-1]:.0f}")
    if "ranks" in measured and "hosts" in measured:
        lines += ["", *scaling_model.report(scaling_model.fit(measured))]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description="How cost grows with ranks, tensors in flight and hosts."
    )
    parser.add_argument("--parts", type=parse_parts, default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--ranks", type=parse_numbers, default=list(RANKS), help="2,4,8")
    parser.add_argument("--hosts", type=parse_numbers, default=list(HOSTS), help="1,2,3,4")
    parser.add_argument(
        "--delay-ms", type=float, default=0, help="of each message between hosts (0)"
    )
    # Most systems have CUBIC, which a namespace may not always choose; the two do alike here.
    parser.add_argument(
        "--congestion-control", default="reno", help="of TCP; '' for this machine's (reno)"
    )
    parser.add_argument("--many", type=parse_numbers, default=list(MANY), help="32,64,128")
    parser.add_argument("--most-tensors", type=positive, default=10_000, help="in flight (10000)")
    parser.add_argument("--rounds", type=positive, default=7, help="turns of each library (7)")
    parser.add_argument("--no-gloo", action="store_true", help="without torch.distributed's Gloo")
    parser.add_argument("--json", action="store_true", help="what was measured, for programs")
    options = parser.parse_args(arguments)
    measured = measure(options)
    print(json.dumps(measured, indent=1) if options.json else table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
