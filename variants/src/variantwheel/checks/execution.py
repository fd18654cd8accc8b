"""The check that executes a wheel: installed into a fresh virtual environment, by pip."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from packaging.version import Version

from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject

_DEADLINE = 600.0
_TAIL_LINES = 15
_PIP_FOR_OTHERS = Version("22.3")
"""The first pip with `--python`."""


def check_execution(subject: CheckSubject) -> Finding:
    """Install an unlabelled copy and run the project's command beside it."""
    check, command = "execution", subject.project.check_command
    if not command:
        return skip(check, "no [tool.variantwheel.check] command")
    here = os.uname().machine
    if subject.machine not in (here, "any"):
        return skip(check, f"for {subject.machine}, this machine is {here}")
    with tempfile.TemporaryDirectory(prefix="variantwheel-check-") as name:
        folder = Path(name)
        plain = folder / str(subject.archive.name.with_label(None))
        shutil.copyfile(subject.file, plain)
        environment = folder / "env"
        pip = _make_environment(environment)
        variables = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "VIRTUAL_ENV": str(environment),
        }
        install = [*pip, "install", "--quiet", "--disable-pip-version-check"]
        find = ["--find-links", str(subject.file.resolve().parent)]
        work = folder / "work"
        work.mkdir()
        for step in ([*install, *find, str(plain)], list(command)):
            faults = _run(step, work, variables)
            if faults:
                return judge(check, faults, "")
    return judge(check, [], " ".join(command))


def _make_environment(folder: Path) -> list[str]:
    """Make a virtual environment and return the command of the pip that installs into it."""
    python = str(folder / "bin" / "python")
    try:
        here = Version(importlib.metadata.version("pip"))
    except importlib.metadata.PackageNotFoundError:
        here = Version("0")
    if here >= _PIP_FOR_OTHERS:
        # Several seconds faster than an own copy of pip.
        venv.create(folder, with_pip=False)
        return [sys.executable, "-m", "pip", "--python", python]
    venv.create(folder, with_pip=True)
    return [python, "-m", "pip"]


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> list[str]:
    # A relative name is looked up in the new environment's PATH, not in that of this process.
    program = shutil.which(command[0], path=variables["PATH"])
    if program is None:
        return [f"{command[0]!r} is not on the PATH of the new environment"]
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_DEADLINE,
        )
    except subprocess.TimeoutExpired:
        return [f"{' '.join(command)}: did not end within {_DEADLINE:.0f} s"]
    if done.returncode == 0:
        return []
    return [
        f"{' '.join(command)}: exit code {done.returncode}",
        *done.stdout.splitlines()[-_TAIL_LINES:],
    ]
