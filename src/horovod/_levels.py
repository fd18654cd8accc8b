"""Which CPU level's kernels to run, and what to say when the installed build does not fit."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from horovod._installation import DISTRIBUTION, repair_command

BASELINE = "baseline"
_NOT_MAPPED = "failed to map segment from shared object"  # the loader's words


def runs_on(level: str, cpu: str) -> bool:
    """Whether a CPU runs code of a level: x86-64 levels include lower ones, all the baseline."""
    if level in (BASELINE, cpu):
        return True
    wanted, offered = (re.fullmatch(r"x86_64_v(\d+)", name) for name in (level, cpu))
    return bool(wanted and offered and int(wanted[1]) <= int(offered[1]))


def choose_level(levels: Sequence[str], cpu: str, gainful: str) -> str:
    """The highest level that the CPU supports, and gains from unless the wheel asks for it.

    Args:
        levels: the levels in the wheel, lowest first.
        cpu: what `_bindings.cpu_level()` found.
        gainful: what `_bindings.gainful_level()` found.

    Raises:
        ImportError: none of them runs here.
    """
    for level in reversed(levels):
        gains = runs_on(level, gainful) or level == level_asked_for(levels)
        if gains and runs_on(level, cpu):
            return level
    raise ImportError(
        f"this build of {DISTRIBUTION} holds code for {', '.join(levels) or 'nothing'}; this CPU"
        f" supports {cpu} only. Install the fitting build: {repair_command()}"
    )


def level_asked_for(levels: Sequence[str]) -> str:
    """The level that the wheel's variant asks of a CPU: the first above the baseline, if any.

    Higher ones are used where the CPU has them, and missed nowhere.

    Args:
        levels: the levels in the wheel, lowest first.
    """
    return levels[min(1, len(levels) - 1)]


def describe_misfit(levels: Sequence[str], level: str, cpu: str) -> str:
    """The one line that a wheel made for a better CPU calls for.

    Args:
        levels: the levels in the wheel, lowest first.
        level: the chosen one.
        cpu: the level that the CPU supports.
    """
    return (
        f"{DISTRIBUTION}: this build is for {level_asked_for(levels)} but this CPU supports"
        f" {cpu}; using the {level} kernels. To install the fitting build: {repair_command()}"
    )


def describe_missing_library(path: Path) -> str:
    """Says that a library of the wheel is gone, and what to do."""
    return (
        f"{path} is missing: the installation of {DISTRIBUTION} is not complete."
        f" Reinstall: {repair_command()}"
    )


def describe_missing_module(native: Path, suffix: str, reason: str) -> str:
    """Says why there is no native module for this Python, and what to do.

    Args:
        native: the folder where it should be.
        suffix: how extension modules of this Python end.
        reason: what the import said.
    """
    found = sorted(path.name for path in native.glob("_bindings.*.so"))
    wanted = f"_bindings{suffix}"
    advice = f"Reinstall: {repair_command()}"
    if wanted in found:
        facts = f"{wanted} is there but does not load"
        forbidden = _what_forbids_code(native / wanted, reason)
        if forbidden:
            facts = f"{facts}: {forbidden}"
            advice = "Install into an environment on a file system that programs may be run from"
    elif found:
        kind = "free-threaded Python" if re.match(r"\.cpython-\d+t-", suffix) else "Python"
        facts = f"there is no {wanted} for this {kind}, only {', '.join(found)}"
    else:
        facts = f"there is no {wanted} nor any other"
    return (
        f"the native module of {DISTRIBUTION} cannot be used: in {native} {facts} ({reason})."
        f" {advice}"
    )


def _what_forbids_code(path: Path, reason: str) -> str:
    """What keeps the system from running a file's code, which may be whole; "" if nothing does."""
    if _is_noexec(path):
        return "the file system there is mounted noexec"
    if _NOT_MAPPED in reason:
        return "a file system mounted noexec, a security policy or a limit of memory forbids it"
    return ""


def _is_noexec(path: Path) -> bool:
    """Whether a file lies on a file system that nothing may be executed from."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:
        return False
