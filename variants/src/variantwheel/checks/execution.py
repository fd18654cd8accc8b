"""The check that executes a wheel: installed into a fresh virtual environment, by pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import venv
from pathlib import Path

from variantwheel.checks.report import Finding, judge, skip
from variantwheel.checks.subject import CheckSubject

_DEADLINE = 600.0
_TAIL_LINES = 15


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
        venv.create(environment, with_pip=True)
        python = str(environment / "bin" / "python")
        variables = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "VIRTUAL_ENV": str(environment),
        }
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        find = ["--find-links", str(subject.file.resolve().parent)]
        work = folder / "work"
        work.mkdir()
        for step in ([*install, *find, str(plain)], list(command)):
            faults = _run(step, work, variables)
            if faults:
                return judge(check, faults, "")
    return judge(check, [], " ".join(command))


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
