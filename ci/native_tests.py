"""Builds and runs the C++ tests, plain and under sanitizers.

    python ci/native_tests.py --flavour plain --flavour thread --at-least 30

Each flavour has a build folder of its own, which one call at a time builds in. Every test program
that CMake registered is run; the last line of its output says how many tests passed. CMake and
Ninja come from the environment.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from quiet_command import CommandFailedError, run

ROOT = Path(__file__).resolve().parent.parent
# Flavour to the value of HVD_SANITIZE.
FLAVOURS = {"plain": "", "address": "address,undefined", "thread": "thread"}
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}
_COMPILATION = 3600  # seconds, on a slow machine
SUMMARY = re.compile(r"(\d+) passed, (\d+) failed")


@dataclass(frozen=True)
class Outcome:
    """What one test program reported."""

    passed: int
    ok: bool
    complaint: str
    seconds: float = 0.0


def judge(returncode: int, output: str) -> Outcome:
    """Reads the result of a test program.

    Args:
        returncode: its exit status.
        output: what it printed.

    Returns:
        The tests that passed. It is ok only when the exit status and the summary line agree on it:
        a program that ends early with status 0 has not run its tests.
    """
    lines = output.strip().splitlines()
    summary = SUMMARY.fullmatch(lines[-1]) if lines else None
    if summary is None:
        return Outcome(0, ok=False, complaint=f"exit status {returncode}, without a summary line")
    passed, failed = map(int, summary.groups())
    if failed or returncode != 0:
        complaint = f"{failed} failed, exit status {returncode}"
        return Outcome(passed, ok=False, complaint=complaint)
    return Outcome(passed, ok=True, complaint="")


def build(flavour: str, folder: Path, jobs: int, only: str | None) -> dict[str, list[str]]:
    """Configures and builds one flavour.

    Args:
        flavour: of `FLAVOURS`.
        folder: of the build.
        jobs: compilers at once.
        only: the one test program to build; None for all.

    Returns:
        The test programs: name to command line, as CMake registered them.
    """
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    target = [] if only is None else ["--target", f"{only}_test"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(
            "cmake", "-S", str(ROOT), "-B", str(folder), *generator,
            "-DHVD_TESTS=ON", "-DHVD_WERROR=ON", f"-DHVD_SANITIZE={FLAVOURS[flavour]}",
            f"-DCMAKE_DISABLE_PRECOMPILE_HEADERS={'ON' if flavour == 'plain' else 'OFF'}",
        )  # fmt: skip
        command = ("cmake", "--build", str(folder), "--parallel", str(jobs), *target)
        run(*command, seconds=_COMPILATION)
    listing = json.loads(run("ctest", "--test-dir", str(folder), "--show-only=json-v1"))
    tests = {test["name"]: test["command"] for test in listing["tests"] if "command" in test}
    return tests if only is None else {only: tests[only]}


def run_program(command: Sequence[str], seconds: float) -> Outcome:
    """Runs one test program; shows its output when something is wrong with it."""
    environment = {**SANITIZER_OPTIONS, **os.environ}
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        print((error.stdout or b"").decode(errors="replace"))
        return Outcome(0, ok=False, complaint=f"did not end within {seconds:.0f} s")
    output = done.stdout.decode(errors="replace")
    outcome = replace(judge(done.returncode, output), seconds=time.monotonic() - began)
    if not outcome.ok:
        print(output)
    return outcome


def test_flavour(flavour: str, folder: Path, options: argparse.Namespace) -> tuple[int, bool]:
    """Builds one flavour and runs its programs.

    Returns:
        The number of tests that passed, and whether nothing failed.
    """
    programs = build(flavour, folder, options.jobs, options.only)
    names = [] if options.build_only else sorted(programs)
    passed, ok = 0, True
    # Most of them wait more than they compute.
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = pool.map(lambda name: run_program(programs[name], options.timeout), names)
        for name, outcome in zip(names, outcomes, strict=True):
            said = f"{outcome.passed:4} passed {outcome.seconds:6.1f} s {outcome.complaint}"
            print(f"{flavour:8} {name:28} {said}".rstrip(), flush=True)
            passed += outcome.passed
            ok = ok and outcome.ok
    return passed, ok


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Build and run the C++ tests.")
    parser.add_argument(
        "--flavour",
        action="append",
        choices=FLAVOURS,
        help="plain, address (with undefined behaviour) or thread; repeatable (default: all)",
    )
    parser.add_argument("--build-root", type=Path, default=ROOT / "build" / "native")
    parser.add_argument(
        "--at-least", type=int, default=1, metavar="N", help="tests that must pass in each flavour"
    )
    parser.add_argument("--jobs", type=int, default=2, help="compilers, or test programs, at once")
    parser.add_argument(
        "--timeout", type=float, default=900, help="seconds that one test program may take"
    )
    parser.add_argument("--build-only", action="store_true", help="run none of them")
    parser.add_argument("--only", metavar="NAME", help="of one test program, as CMake names it")
    options = parser.parse_args(arguments)
    for tool in ("cmake", "ctest"):
        if shutil.which(tool) is None:
            print(f"{tool} is not installed: pip install cmake", file=sys.stderr)
            return 2
    failures = []
    for flavour in dict.fromkeys(options.flavour or FLAVOURS):
        try:
            passed, ok = test_flavour(flavour, options.build_root.resolve() / flavour, options)
        except CommandFailedError as error:
            print(error, file=sys.stderr)
            failures.append(f"{flavour}: not built")
            continue
        if not ok:
            failures.append(f"{flavour}: tests failed")
        elif options.build_only:
            print(f"{flavour:8} built")
        elif passed < options.at_least:
            failures.append(f"{flavour}: {passed} tests passed, {options.at_least} are expected")
        else:
            print(f"{flavour:8} {passed} passed")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
