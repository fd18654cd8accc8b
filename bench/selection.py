"""Selecting a variant: how long it takes in a fresh process, against archspec; and at size.

    python bench/selection.py

needs `variantwheel-selector` and `archspec` installed, and `horovod-variants` for the import guard.
Every figure of a fresh process comes from processes started in turns, so that whatever else the
machine does meets both sides, and is processor time, since none of this waits for anything.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from variantwheel_selector.model import Variant
from variantwheel_selector.probe import probe
from variantwheel_selector.providers import release_support
from variantwheel_selector.resolve import resolve
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo

SELECTION_LIMIT_MS, GUARD_LIMIT_MS, RESOLUTION_LIMIT_MS = 5.0, 1.0, 50.0
CANDIDATES = 10_000

# Run in processes of their own: what an installation does after its imports, for the first time.
SELECTION = """
import time
now = time.process_time
start = now()
from variantwheel_selector.model import Variant
from variantwheel_selector.probe import probe
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import read_settings
from variantwheel_selector.variants_json import ProviderInfo, VariantsInfo
from variantwheel_selector.providers import aarch64, x86_64
imported = now()
providers = {name: ProviderInfo(requires=("p",)) for name in ("nvidia", "amd", "x86_64", "aarch64")}
variants = [
    Variant("null"),
    Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v3"]),
    Variant.from_strings("neoverse", ["aarch64 :: version :: 8.4a"]),
    Variant.from_strings(
        "cu12", ["nvidia :: cuda_version_lower_bound :: 12.0", "nvidia :: sm_arch :: 90_real"]
    ),
    Variant.from_strings("rocm", ["amd :: gfx_arch :: gfx942"]),
]
info = VariantsInfo(tuple(providers), {item.label: item for item in variants}, providers)
names = {f"demo-1.0-py3-none-any-{item.label}.whl": None for item in variants}
release = Release("demo", "1.0", info, names)
start_probe = now()
machine = probe(info.namespaces)
probed = now()
select(release, read_settings(None, {}, "demo"), machine)
done = now()
print((imported - start) * 1e3, (probed - start_probe) * 1e3, (done - start_probe) * 1e3)
"""
ARCHSPEC = """
import time
now = time.process_time
start = now()
import archspec.cpu
imported = now()
archspec.cpu.host()
print((imported - start) * 1e3, 0.0, (now() - imported) * 1e3)
"""
GUARD = """
import time
from horovod import _loader
start = time.process_time()
_loader.select_core()
print(0.0, 0.0, (time.process_time() - start) * 1e3)
"""


@dataclass(frozen=True)
class Times:
    """Milliseconds in one fresh process: imports, the probe alone, and the whole."""

    imports: float
    probe: float
    whole: float


def fresh_process(script: str) -> Times:
    """Run a script in a new interpreter and return what it measured."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return Times(*map(float, done.stdout.split()))


def in_turns(rounds: int, **scripts: str) -> dict[str, list[Times]]:
    """Run the scripts one after the other, round by round; the first round warms the disk."""
    found: dict[str, list[Times]] = {name: [] for name in scripts}
    for number in range(rounds + 1):
        for name, script in scripts.items():
            times = fresh_process(script)
            if number:
                found[name].append(times)
    return found


def middle(times: list[Times], part: Callable[[Times], float]) -> float:
    """Return the median of one part."""
    return statistics.median(map(part, times))


def resolution_ms(labels: int, wheels_each: int, repeats: int) -> tuple[float, float]:
    """Return wall and processor time of resolving a large release, the fastest of several."""
    providers = {"nvidia": ProviderInfo(requires=("p",)), "x86_64": ProviderInfo(requires=("q",))}
    variants = {
        f"l{number}": Variant.from_strings(
            f"l{number}",
            [f"nvidia :: sm_arch :: {50 + number % 100}_real",
             f"nvidia :: cuda_version_lower_bound :: {11 + number % 9}.{number % 20}"]
            if number % 2
            else [f"x86_64 :: level :: v{1 + number // 2 % 4}"],
        )
        for number in range(labels)
    }  # fmt: skip
    info = VariantsInfo(tuple(providers), variants, providers)
    names = [
        f"demo-1.0-py3-none-manylinux_2_{17 + tag}_x86_64-{label}.whl"
        for label in variants
        for tag in range(wheels_each)
    ]
    machine = probe(info.namespaces)
    support, tags = release_support(info, machine), supported_tags(machine)
    walls: list[float] = []
    processor: list[float] = []
    for _ in range(repeats):
        wall, used = time.perf_counter(), time.process_time()
        found = resolve(info, names, support, tags)
        walls.append((time.perf_counter() - wall) * 1e3)
        processor.append((time.process_time() - used) * 1e3)
        if len(found.candidates) != labels:
            raise SystemExit("the release was not resolved as a whole")
    return min(walls), min(processor)


def main() -> int:
    """Measure, print, and return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=21, help="fresh processes of each kind")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    args = parser.parse_args()
    scripts = {"selection": SELECTION, "archspec": ARCHSPEC}
    if importlib.util.find_spec("horovod") is not None:
        scripts["guard"] = GUARD
    found = in_turns(args.rounds, **scripts)
    result: dict[str, float] = {
        "selection_ms": middle(found["selection"], lambda item: item.whole),
        "selection_probe_ms": middle(found["selection"], lambda item: item.probe),
        "selection_imports_ms": middle(found["selection"], lambda item: item.imports),
        "archspec_host_ms": middle(found["archspec"], lambda item: item.whole),
        "archspec_imports_ms": middle(found["archspec"], lambda item: item.imports),
        "ratio": statistics.median(
            ours.whole / theirs.whole
            for ours, theirs in zip(found["selection"], found["archspec"], strict=True)
        ),
        "ratio_with_imports": statistics.median(
            (ours.imports + ours.whole) / (theirs.imports + theirs.whole)
            for ours, theirs in zip(found["selection"], found["archspec"], strict=True)
        ),
        "load": os.getloadavg()[0],
    }
    if "guard" in found:
        result["guard_ms"] = middle(found["guard"], lambda item: item.whole)
    for labels, wheels in ((100, CANDIDATES // 100), (CANDIDATES, 1)):
        wall, processor = resolution_ms(labels, wheels, 9)
        result[f"resolution_{labels}x{wheels}_ms"] = wall
        result[f"resolution_{labels}x{wheels}_processor_ms"] = processor
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name:32} {value:9.2f}")
    missed = [
        result["selection_ms"] > SELECTION_LIMIT_MS,
        result["ratio"] > 1.0,
        result["ratio_with_imports"] > 1.0,
        result.get("guard_ms", 0.0) > GUARD_LIMIT_MS,
        result[f"resolution_100x{CANDIDATES // 100}_processor_ms"] > RESOLUTION_LIMIT_MS,
        result[f"resolution_{CANDIDATES}x1_processor_ms"] > RESOLUTION_LIMIT_MS,
    ]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
