"""The environment that build backends run in: kept between builds, with what they asked for."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path

from build.env import IsolatedEnv
from packaging.version import Version

from variantwheel.atomic_file import replace_file
from variantwheel.build_programs import BuildPrograms
from variantwheel.errors import BuildFailedError

_STAMP = "variantwheel-installed.json"
_TAIL_LINES = 15
_PIP_FOR_OTHERS = Version("22.3")
"""The first pip with `--python`."""


class BuildEnvironment(IsolatedEnv):
    """A virtual environment without the packages of the one that the toolkit runs in.

    It lies at the same place each time, because paths of headers in it can end up in binaries, and
    stays there: the next build installs what is new in its requirements. Safe to use from threads.
    """

    def __init__(self, folder: Path, log: Path, programs: BuildPrograms) -> None:
        """Open the environment, or make it where there is none of this Python.

        Args:
            folder: Where it lies.
            log: What pip prints goes to this file.
            programs: Run pip.

        Raises:
            BuildFailedError: It cannot be made.
        """
        self._folder = folder
        self._log = log
        self._programs = programs
        self._lock = threading.Lock()
        self._base = f"{sys.version} {sys.base_prefix}"
        found = self._read_stamp()
        self._installed = found or set()
        if found is None:
            self._create()

    @property
    def python_executable(self) -> str:
        """The interpreter."""
        return str(self._folder / "bin" / "python")

    def make_extra_environ(self) -> Mapping[str, str]:
        """Return the variables that make its programs found, and no other packages."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{self._folder / 'bin'}{os.pathsep}{path}", "PYTHONPATH": ""}

    def install(self, requirements: Iterable[str]) -> None:
        """Install what is not there yet.

        Raises:
            BuildFailedError: pip failed; the text ends with what it printed.
        """
        with self._lock:
            wanted = set(requirements) - self._installed
            if not wanted:
                return
            listed = self._folder / "variantwheel-wanted.txt"
            # In a file, because pip honours environment markers there alone.
            listed.write_text("".join(f"{item}\n" for item in sorted(wanted)), encoding="utf-8")
            self._pip("install", "--no-input", "--no-compile", "--use-pep517", "-r", str(listed))
            self._installed |= wanted
            self._write_stamp()

    def _create(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            venv.create(self._folder, symlinks=True, with_pip=not _pip_serves_others())
        except UnicodeEncodeError as error:
            raise BuildFailedError(
                f"no build environment can be made in {self._folder}: Python's venv takes no name "
                "that is no text in this locale; rename the folder or, where its name is UTF-8, "
                "set LC_ALL=C.UTF-8"
            ) from error
        except (OSError, subprocess.CalledProcessError) as error:
            raise BuildFailedError(
                f"no build environment could be made in {self._folder}: {error}"
            ) from error
        if not _pip_serves_others() and sys.version_info < (3, 12):
            # It came with pip; a backend has to ask for it.
            self._pip("uninstall", "--yes", "setuptools")
        self._write_stamp()

    def _pip(self, *words: str) -> None:
        other = [sys.executable, "-m", "pip", "--python", self.python_executable]
        pip = other if _pip_serves_others() else [self.python_executable, "-m", "pip"]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("w", encoding="utf-8") as log:
            command = [*pip, *words, "--disable-pip-version-check"]
            exit_code = self._programs.run(command, log.fileno())
        if exit_code != 0:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            end = "\n".join(f"  | {line}" for line in lines[-_TAIL_LINES:])
            raise BuildFailedError(
                f"the build environment in {self._folder} could not be made: pip {words[0]} ended "
                f"with exit code {exit_code}\n  the end of {self._log}:\n{end}"
            )

    def _read_stamp(self) -> set[str] | None:
        try:
            stamp = json.loads((self._folder / _STAMP).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return None
        same = stamp.get("python") == self._base and Path(self.python_executable).exists()
        return set(stamp["installed"]) if same else None

    def _write_stamp(self) -> None:
        stamp = {"python": self._base, "installed": sorted(self._installed)}
        replace_file(self._folder / _STAMP, json.dumps(stamp, indent=1).encode())


def _pip_serves_others() -> bool:
    """Whether the pip of this environment can install into another: seconds faster than a copy."""
    try:
        return Version(importlib.metadata.version("pip")) >= _PIP_FOR_OTHERS
    except importlib.metadata.PackageNotFoundError:
        return False
