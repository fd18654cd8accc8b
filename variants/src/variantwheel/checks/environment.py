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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from variantwheel.checks.subject import CheckSubject
from variantwheel.pip_placing import ADVICE, placing_variables
from variantwheel_selector.errors import UsageError

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
        system: The root folder of another machine's system, whose Python it is; none for this
            machine's own.
    """

    folder: Path
    variables: dict[str, str]
    faults: list[str] = field(default_factory=list)
    system: Path | None = None

    def run(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> list[str]:
        """Run a command; return what went wrong, in words.

        Args:
            command: The program and its arguments.
            variables: Its environment; none for the one of processes in here.
        """
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
                env=self.variables if variables is None else variables,
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
        if self.system is None:
            real, root = python.resolve(), ""
        else:
            real, root = python_of(self.system), f" -L {shlex.quote(str(self.system))}"
        native = {link: link.readlink() for link in folder.glob("python*")}
        for link in native:
            link.unlink()
        # `-0` keeps argv[0], so that sys.executable, and with it every child, is this script again.
        start = f"{shlex.quote(emulator)}{root} -cpu {shlex.quote(model)}"
        command = f'{start} -0 "$0" {shlex.quote(str(real))}'
        python.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        for link in native.keys() - {python}:
            link.symlink_to(python.name)
        try:
            yield
        finally:
            for link in folder.glob("python*"):
                link.unlink()
            for link, target in native.items():
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
        environment.faults = environment.run(
            [*install, *find, str(plain)], placing_variables(variables)
        )
        dist_info = f"lib/python*/site-packages/{subject.archive.dist_info}"
        if not environment.faults and not any(folder.glob(dist_info)):
            environment.faults = [f"pip install ended well, and the wheel is not there; {ADVICE}"]
        yield environment


def python_of(system: Path) -> Path:
    """Return the newest Python of a system that lies in a folder.

    Raises:
        UsageError: It has none.
    """
    found = [item for item in system.glob("usr/bin/python3.*") if item.suffix[1:].isdigit()]
    if not found:
        raise UsageError(f"--system {system}: holds no usr/bin/python3.*")
    return max(found, key=lambda item: int(item.suffix[1:]))


@contextmanager
def foreign_environment(subject: CheckSubject, system: Path) -> Iterator[WheelEnvironment]:
    """Make an environment for another machine's Python, with a wheel of that machine in it.

    pip of this machine installs into it, for the wheel's own tag, so that nothing but the project's
    command has to be emulated.

    Args:
        subject: The wheel.
        system: The root folder of the other machine's system.
    """
    with tempfile.TemporaryDirectory(prefix="variantwheel-check-") as name:
        folder = Path(name) / "env"
        version = python_of(system).name.removeprefix("python")
        packages = folder / "lib" / f"python{version}" / "site-packages"
        packages.mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(python_of(system))
        (folder / "bin" / "python3").symlink_to("python")
        # What makes a folder a virtual environment: PEP 405.
        (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
        plain = folder.parent / str(subject.archive.name.with_label(None))
        shutil.copyfile(subject.file, plain)
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment = WheelEnvironment(folder, variables, system=system)
        platforms = [f"--platform={item}" for item in subject.archive.name.platform.split(".")]
        environment.faults = environment.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--target", str(packages), *platforms, f"--python-version={version}"),
                *("--implementation=cp", "--only-binary=:all:"),
                *("--find-links", str(subject.file.resolve().parent), str(plain)),
            ],
            placing_variables(variables),
        )
        for script in packages.glob("bin/*"):
            _, _, rest = script.read_bytes().partition(b"\n")
            target = folder / "bin" / script.name
            target.write_bytes(os.fsencode(f"#!{folder / 'bin' / 'python'}\n") + rest)
            target.chmod(0o755)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        environment.variables |= {"PATH": path, "VIRTUAL_ENV": str(folder)}
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
