"""A fresh virtual environment with one wheel in it, whose Python can run on an emulated CPU."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from variantwheel.checks.subject import CheckSubject

_DEADLINE = 600.0
_TAIL_LINES = 15
_PIP_FOR_OTHERS = Version("22.3")
"""The first pip with `--python`."""


@dataclass
class WheelEnvironment:
    """The environment.

    Attributes:
        folder: Where it lies.
        variables: For processes in it.
        faults: Why the wheel could not be installed; empty if it is.
    """

    folder: Path
    variables: dict[str, str]
    faults: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str]) -> list[str]:
        """Run a command; return what went wrong, in words."""
        # A relative name is looked up in the new environment's PATH, not in that of this process.
        program = shutil.which(command[0], path=self.variables["PATH"])
        if program is None:
            return [f"{command[0]!r} is not on the PATH of the new environment"]
        work = self.folder.parent / "work"
        work.mkdir(exist_ok=True)
        try:
            done = subprocess.run(
                [program, *command[1:]],
                cwd=work,
                env=self.variables,
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

    @contextmanager
    def emulated(self, emulator: str, model: str) -> Iterator[None]:
        """Let every Python process in here run on a CPU model of an emulator."""
        folder = self.folder / "bin"
        python = folder / "python"
        real = shlex.quote(str(python.resolve()))
        native = {link: link.readlink() for link in folder.glob("python*")}
        for link in native:
            link.unlink()
        # `-0` keeps argv[0], so that sys.executable, and with it every child, is this script again.
        command = f'{shlex.quote(emulator)} -cpu {shlex.quote(model)} -0 "$0" {real}'
        python.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        for link in native.keys() - {python}:
            link.symlink_to(python.name)
        try:
            yield
        finally:
            for link, target in native.items():
                link.unlink()
                link.symlink_to(target)


@contextmanager
def wheel_environment(subject: CheckSubject) -> Iterator[WheelEnvironment]:
    """Make an environment with an unlabelled copy of a wheel, and its requirements, in it."""
    with tempfile.TemporaryDirectory(prefix="variantwheel-check-") as name:
        folder = Path(name) / "env"
        plain = folder.parent / str(subject.archive.name.with_label(None))
        shutil.copyfile(subject.file, plain)
        pip = _make_environment(folder)
        variables = {
            **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "VIRTUAL_ENV": str(folder),
        }
        environment = WheelEnvironment(folder, variables)
        install = [*pip, "install", "--quiet", "--disable-pip-version-check"]
        find = ["--find-links", str(subject.file.resolve().parent)]
        environment.faults = environment.run([*install, *find, str(plain)])
        yield environment


def _make_environment(folder: Path) -> list[str]:
    """Make a virtual environment and return the command of the pip that installs into it."""
    python = str(folder / "bin" / "python")
    try:
        here = Version(importlib.metadata.version("pip"))
    except importlib.metadata.PackageNotFoundError:
        here = Version("0")
    if here >= _PIP_FOR_OTHERS:
        # Several seconds faster than an own copy of pip.
        venv.create(folder, with_pip=False, symlinks=True)
        return [sys.executable, "-m", "pip", "--python", python]
    venv.create(folder, with_pip=True, symlinks=True)
    return [python, "-m", "pip"]
