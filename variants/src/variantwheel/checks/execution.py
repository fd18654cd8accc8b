"""The checks that execute a wheel: on this machine's CPU, and on emulated models of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from variantwheel.checks.environment import (
    WheelEnvironment,
    foreign_environment,
    python_of,
    wheel_environment,
)
from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject
from variantwheel.python_tags import not_for_cpython, not_for_this_python
from variantwheel.release_folder import ANY_MACHINE


@dataclass(frozen=True)
class Emulator:
    """How CPU models are emulated.

    Attributes:
        programs: qemu's user-mode emulator by machine, where it is not the one on the PATH.
        system: The root folder of another machine's system, with a Python; none for this machine's.
    """

    programs: Mapping[str, str] = field(default_factory=dict)
    system: Path | None = None


EXECUTION, EMULATION = "execution", "emulation"
_NO_COMMAND = "no [tool.variantwheel.check] command"


def check_execution(
    subject: CheckSubject, *, execute: bool, emulate: bool, emulator: Emulator
) -> list[Finding]:
    """Install a wheel once, and run the project's command beside it.

    Args:
        subject: The wheel.
        execute: Whether to run on this machine's CPU.
        emulate: Whether to run on the CPU models that the definition names.
        emulator: How to emulate them.
    """
    asked = [
        *([EXECUTION] if execute else []),
        *([EMULATION] if emulate else []),
    ]
    if not asked:
        return []
    if not subject.project.check.command:
        return [skip(check, _NO_COMMAND) for check in asked]
    here = os.uname().machine
    if subject.machine not in (here, ANY_MACHINE):
        reason = f"for {subject.machine}, this machine is {here}"
        return [
            *([skip(EXECUTION, reason)] if execute else []),
            *([_emulated_elsewhere(subject, emulator, reason)] if emulate else []),
        ]
    if reason := not_for_this_python(subject.archive.name):
        return [skip(check, reason) for check in asked]
    with wheel_environment(subject) as environment:
        if environment.faults:
            return [judge(check, environment.faults, "") for check in asked]
        findings: list[Finding] = []
        if execute:
            command = subject.project.check.command
            findings.append(judge(EXECUTION, environment.run(command), " ".join(command)))
        if emulate:
            findings.append(_emulated(subject, environment, emulator))
        return findings


def _emulated_elsewhere(subject: CheckSubject, emulator: Emulator, reason: str) -> Finding:
    """Emulate a wheel of another machine, where the user has named a system of it."""
    if emulator.system is None:
        return skip(EMULATION, f"{reason}; name its --system")
    version = int(python_of(emulator.system).suffix[1:])
    if reason := not_for_cpython(subject.archive.name, (3, version)):
        return skip(EMULATION, reason)
    with foreign_environment(subject, emulator.system) as environment:
        if environment.faults:
            return judge(EMULATION, environment.faults, "")
        return _emulated(subject, environment, emulator)


def _emulated(subject: CheckSubject, environment: WheelEnvironment, chosen: Emulator) -> Finding:
    platform = subject.platform_here()
    if platform is None or not (platform.emulation.runs or platform.emulation.falls_back):
        return skip(EMULATION, "the definition names no CPU models (emulate)")
    emulation, machine = platform.emulation, platform.machine
    names = (f"qemu-{machine}-static", f"qemu-{machine}")
    emulator = chosen.programs.get(machine)
    emulator = emulator or next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        return skip(EMULATION, f"neither {' nor '.join(names)} is installed")
    faults: list[str] = []
    for model in (*emulation.runs, *emulation.falls_back):
        with environment.emulated(emulator, model):
            found = environment.run(subject.project.check.command)
        faults += [f"on {model}: {found[0]}", *found[1:]] if found else []
    words = f"on {', '.join(emulation.runs)}" if emulation.runs else ""
    if emulation.falls_back:
        words += f"{'; ' if words else ''}falls back on {', '.join(emulation.falls_back)}"
    return judge(EMULATION, faults, words)
