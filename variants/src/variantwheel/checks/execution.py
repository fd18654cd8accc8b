"""The checks that execute a wheel: on this machine's CPU, and on emulated models of others."""

from __future__ import annotations

import os
import shutil

from variantwheel.checks.environment import WheelEnvironment, wheel_environment
from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject

_EXECUTION, _EMULATION = "execution", "emulation"
_NO_COMMAND = "no [tool.variantwheel.check] command"


def check_execution(subject: CheckSubject, *, execute: bool, emulate: bool) -> list[Finding]:
    """Install a wheel once, and run the project's command beside it.

    Args:
        subject: The wheel.
        execute: Whether to run on this machine's CPU.
        emulate: Whether to run on the CPU models that the definition names.
    """
    asked = [
        *([_EXECUTION] if execute else []),
        *([_EMULATION] if emulate else []),
    ]
    here = os.uname().machine
    reason = ""
    if not subject.project.check.command:
        reason = _NO_COMMAND
    elif subject.machine not in (here, "any"):
        reason = f"for {subject.machine}, this machine is {here}"
    if reason or not asked:
        return [skip(check, reason) for check in asked]
    with wheel_environment(subject) as environment:
        if environment.faults:
            return [judge(check, environment.faults, "") for check in asked]
        findings: list[Finding] = []
        if execute:
            command = subject.project.check.command
            findings.append(judge(_EXECUTION, environment.run(command), " ".join(command)))
        if emulate:
            findings.append(_emulated(subject, environment))
        return findings


def _emulated(subject: CheckSubject, environment: WheelEnvironment) -> Finding:
    emulation = None if subject.platform is None else subject.platform.emulation
    if emulation is None or not (emulation.runs or emulation.falls_back):
        return skip(_EMULATION, "the definition names no CPU models (emulate)")
    names = (f"qemu-{subject.machine}-static", f"qemu-{subject.machine}")
    emulator = next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        return skip(_EMULATION, f"neither {' nor '.join(names)} is installed")
    faults: list[str] = []
    for model in (*emulation.runs, *emulation.falls_back):
        with environment.emulated(emulator, model):
            found = environment.run(subject.project.check.command)
        faults += [f"on {model}: {found[0]}", *found[1:]] if found else []
    words = f"on {', '.join(emulation.runs)}" if emulation.runs else ""
    if emulation.falls_back:
        words += f"{'; ' if words else ''}falls back on {', '.join(emulation.falls_back)}"
    return judge(_EMULATION, faults, words)
