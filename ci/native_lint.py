"""Static analysis of the C++: clang-format over all of it, clang-tidy over the library.

    cmake -S . -B build/lint -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    python ci/native_lint.py --build-dir build/lint

Both tools come from their PyPI wheels; no installed clang is needed. The compile commands may be
gcc's: clang-tidy brings its own builtin headers and finds gcc's library by itself. It takes as many
files at once as the compiler does: headers cost it more than our code. That each file includes what
it uses is seen with `-DCMAKE_UNITY_BUILD=OFF`, in about four times the time. The compiler of these
commands parses the bindings once more, as the one file that wheels compile them as.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "src" / "native"
BINDINGS = LIBRARY / "bindings"
TESTS = ROOT / "tests" / "native"
SUFFIXES = (".cc", ".h")
SECONDS_PER_FILE = 300
# What gcc knows and clang does not is not an error here.
CLANG_ARGUMENTS = ("-Qunused-arguments", "-Wno-unknown-warning-option")
_INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """What a compiler takes at once.

    Attributes:
        file: what it is called with.
        holds: the file itself, or those that CMake's unity build included there.
        command: the entry of `compile_commands.json`.
    """

    file: Path
    holds: tuple[Path, ...]
    command: Mapping[str, str]


class UsageError(Exception):
    """The check cannot run at all: a tool or the compile commands are missing."""


def find_tool(name: str) -> str:
    """The tool of this environment, else of the PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise UsageError(f"{name} is not installed: pip install {name}")
    return found


def sources(folders: Iterable[Path], suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(
        path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes
    )


def read_units(build_dir: Path) -> list[Unit]:
    """What the compile commands of a build folder compile, in their order."""
    path = build_dir / "compile_commands.json"
    if not path.is_file():
        raise UsageError(f"{path} is missing: configure with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    units = []
    for entry in json.loads(path.read_text()):
        file = (Path(entry["directory"]) / entry["file"]).resolve()
        holds: tuple[Path, ...] = (file,)
        if file.parent.name == "Unity":
            holds = tuple(Path(each).resolve() for each in _INCLUDED.findall(file.read_text()))
        units.append(Unit(file, holds, entry))
    return units


def one_unit_per_file(units: Iterable[Unit]) -> dict[Path, Unit]:
    """Reduces units to one for each file.

    Returns:
        The last one that holds the file: files compiled for several CPU levels are listed from the
        lowest up, and the highest has the most code.
    """
    return {file: unit for unit in units for file in unit.holds}


def formatted(files: Sequence[Path]) -> bool:
    """Whether clang-format would leave all files as they are; prints where it would not."""
    tool = find_tool("clang-format")
    done = subprocess.run([tool, "--dry-run", "-Werror", *map(str, files)], check=False)
    print(f"clang-format: {len(files)} files, {'clean' if done.returncode == 0 else 'NOT CLEAN'}")
    return done.returncode == 0


def tidy_one(tool: str, database: str, file: Path) -> str:
    """Findings in one file, as text; empty when there are none."""
    command = [tool, "--quiet", "-p", database]
    command += [f"--extra-arg={argument}" for argument in CLANG_ARGUMENTS]
    try:
        done = subprocess.run(
            [*command, str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_PER_FILE,
        )
    except subprocess.TimeoutExpired:
        return f"{file}: clang-tidy did not end within {SECONDS_PER_FILE} s\n"
    if done.returncode == 0 and not done.stdout.strip():
        return ""
    # What clang-tidy cannot parse at all, it reports on stderr alone.
    return done.stdout or done.stderr or f"{file}: clang-tidy exited with {done.returncode}\n"


def tidy(files: Sequence[Path], units: Mapping[Path, Unit], jobs: int) -> bool:
    """Whether clang-tidy finds nothing; prints what it finds."""
    tool = find_tool("clang-tidy")
    unknown = [file for file in files if file not in units]
    for file in unknown:
        print(f"{file.relative_to(ROOT)}: not among the compile commands, so nothing builds it")
    chosen = {units[file].file: units[file] for file in files if file in units}
    # The long ones first, so that no process is left alone with one.
    ordered = sorted(chosen.values(), key=lambda unit: -len(unit.holds))
    reports: list[str] = []
    with tempfile.TemporaryDirectory() as database:
        entries = [dict(unit.command) for unit in ordered]
        Path(database, "compile_commands.json").write_text(json.dumps(entries))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            reports += pool.map(lambda unit: tidy_one(tool, database, unit.file), ordered)
    # A finding in a header comes back with every file that includes it.
    findings = dict.fromkeys(report for report in reports if report)
    for report in findings:
        print(report, end="")
    dirty = sum(bool(report) for report in reports)
    checked = len(files) - len(unknown)
    print(f"clang-tidy: {checked} files in {len(ordered)} units, {dirty or 'none'} with findings")
    return not dirty and not unknown


def fit_together(files: Sequence[Path], units: Mapping[Path, Unit]) -> bool:
    """Whether a compiler takes files as one, as in CMake's unity builds; prints why not.

    Args:
        files: those that are known are taken, with the flags of the first.
        units: their commands end with `-o OBJECT -c SOURCE`, as CMake's do.
    """
    known = [file for file in files if file in units]
    if not known:
        return True
    entry = units[known[0]].command
    words = shlex.split(entry["command"])
    done = subprocess.run(
        [*words[: words.index("-o")], "-Werror", "-fsyntax-only", "-x", "c++", "-"],
        cwd=entry["directory"],
        input="".join(f'#include "{file}"\n' for file in known),
        text=True,
        check=False,
        timeout=SECONDS_PER_FILE,
    )
    print(f"as one file: {len(known)} files, {'fit' if done.returncode == 0 else 'DO NOT FIT'}")
    return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Check the C++: clang-format and clang-tidy.")
    parser.add_argument(
        "--build-dir", type=Path, required=True, help="where compile_commands.json is"
    )
    parser.add_argument("--jobs", type=int, default=2, help="clang-tidy processes at once")
    parser.add_argument(
        "files", nargs="*", type=Path, help="only these (default: all of the library and its tests)"
    )
    options = parser.parse_args(arguments)
    every = [path.resolve() for path in options.files] or sources([LIBRARY, TESTS], SUFFIXES)
    compiled = [file for file in every if file.suffix == ".cc" and LIBRARY in file.parents]
    if not compiled and not options.files:
        print(f"no source found in {LIBRARY}")
        return 1
    try:
        units = one_unit_per_file(read_units(options.build_dir))
        clean = [formatted(every), tidy(compiled, units, options.jobs)]
        if any(BINDINGS in file.parents for file in every):
            clean.append(fit_together(sources([BINDINGS], (".cc",)), units))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
