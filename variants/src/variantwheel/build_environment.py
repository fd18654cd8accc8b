"""The environments that build backends run in: kept, and shared where requirements agree."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from build.env import IsolatedEnv
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from variantwheel.atomic_file import replace_file
from variantwheel.build_programs import BuildPrograms
from variantwheel.errors import BuildFailedError, SystemRefusedBuildError
from variantwheel.folder_lock import locked_folder
from variantwheel.pip_placing import ADVICE, placing_variables
from variantwheel_selector.system_refusal import is_refusal

_STAMP = "variantwheel-installed.json"
_NAME_LENGTH = 12
"""Of the environments' folders: first lines of scripts, which name them, may not be long."""
_TAIL_LINES = 15
_INSTALL = ("install", "--no-input", "--no-compile", "--use-pep517")
_PIPS_OS_ERROR = re.compile(r"^ERROR: .*\bOSError: \[Errno (\d+)\]", re.MULTILINE)
_PIP_FOR_OTHERS = Version("22.3")
"""The first pip with `--python`."""


class BuildEnvironment(IsolatedEnv):
    """A virtual environment without the packages of the one that the toolkit runs in."""

    def __init__(self, folder: Path) -> None:
        """Name the environment.

        Args:
            folder: Where it lies.
        """
        self.folder = folder

    @property
    def python_executable(self) -> str:
        """The interpreter."""
        return str(self.folder / "bin" / "python")

    def make_extra_environ(self) -> Mapping[str, str]:
        """Return the variables that make its programs found, and no other packages."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": f"{self.folder / 'bin'}{os.pathsep}{path}", "PYTHONPATH": ""}

    def installed(self) -> dict[str, str]:
        """Return what is installed: versions by normalised name."""
        places = [str(path) for path in self.folder.glob("lib*/python*/site-packages")]
        found = importlib.metadata.distributions(path=places)
        return {canonicalize_name(item.metadata["Name"]): item.version for item in found}

    def lacks(self, requirements: Iterable[str]) -> list[str]:
        """Return the requirements that pip cannot have installed here, although it said so."""
        versions = self.installed()
        lacking: list[str] = []
        for text in requirements:
            try:
                item = Requirement(text)
            except InvalidRequirement:  # such as a file, whose name says nothing for sure
                continue
            if item.marker is not None and not item.marker.evaluate({"extra": ""}):
                continue
            version = versions.get(canonicalize_name(item.name))
            if version is None or not item.specifier.contains(version, prereleases=True):
                lacking.append(text)
        return lacking

    def satisfies(self, requirements: Iterable[str]) -> bool:
        """Tell whether requirements are there for sure; of extras and URLs pip is to judge."""
        wanted = list(requirements)
        return not any(map(_pip_is_to_judge, wanted)) and not self.lacks(wanted)


class BuildEnvironments:
    """One environment for requirements that can be installed together.

    Nothing in one is ever replaced, so that each build runs with what its definition pins, whatever
    others pin; what another build needs besides is added. It lies at the same place each time,
    because paths of headers in it can end up in binaries, and stays there for the next build. Safe
    to use from threads and processes.
    """

    def __init__(self, folder: Path, programs: BuildPrograms) -> None:
        """Name the place.

        Args:
            folder: Where they lie, each beside the log of what pip printed.
            programs: Run pip.
        """
        self._folder = folder
        self._programs = programs

    def with_requirements(self, requirements: Iterable[str], tools: str = "") -> BuildEnvironment:
        """Open an environment that has some requirements, or make it where there is none.

        Args:
            requirements: What it has to have.
            tools: Names what may be there besides; see `shared_tools`. Nothing for no more.

        Raises:
            BuildFailedError: It cannot be made; the text ends with what pip printed.
            SystemRefusedBuildError: It cannot be made for now, as with a full disk.
            OSError: The system refuses for now, as with a full disk.
        """
        wanted = sorted(set(requirements))
        name = hashlib.sha256((tools or "\n".join(wanted)).encode()).hexdigest()[:_NAME_LENGTH]
        folder = self._folder / name
        environment = BuildEnvironment(folder)
        python = f"{sys.version} {sys.base_prefix}"
        with self._locked(environment):
            there = _read_stamp(folder, python)
            if there is None or not Path(environment.python_executable).exists():
                self._make(environment, folder, wanted)
                replace_file(folder / _STAMP, _stamp(python, wanted))
                return environment
            missing = sorted(set(wanted) - there)
            if not missing:
                return environment
            if self._add(environment, missing, _stamp(python, there | set(wanted))):
                return environment
        # They exclude each other by what they require in turn.
        return self.with_requirements(wanted)

    def with_more(
        self, requirements: Iterable[str], asked: Iterable[str], tools: str = ""
    ) -> BuildEnvironment:
        """Open the environment of some requirements that has what a backend asks for besides.

        That is added where nothing has to be replaced for it: an environment may be large, and two
        of nearly the same take twice the time. Otherwise there is another one for both.

        Args:
            requirements: As of `with_requirements`, and so are the tools.
            asked: What the backend asks for.
            tools: See there.

        Raises:
            BuildFailedError: It cannot be made; the text ends with what pip printed.
        """
        fixed, more = set(requirements), set(asked)
        environment = self.with_requirements(fixed, tools)
        with self._locked(environment):
            if environment.satisfies(more) or self._add(environment, sorted(more)):
                return environment
        return self.with_requirements(fixed | more)

    def _locked(self, environment: BuildEnvironment) -> AbstractContextManager[None]:
        return locked_folder(self._folder, f"{environment.folder.name}.lock", lambda: None)

    def _add(
        self, environment: BuildEnvironment, wanted: Sequence[str], noted: bytes | None = None
    ) -> bool:
        """Install more; tell whether that was possible without replacing anything.

        Args:
            environment: Where.
            wanted: What.
            noted: The environment's stamp from then on; the one that it has if there is none.
        """
        folder, before = environment.folder, environment.installed()
        stamp = (folder / _STAMP).read_bytes()
        # Whoever finds it without, after an interruption, makes it anew.
        (folder / _STAMP).unlink()
        kept = _listed(folder / "variantwheel-kept.txt", [f"{k}=={v}" for k, v in before.items()])
        more = _listed(folder / "variantwheel-more.txt", wanted)
        try:
            self._install(environment, wanted, "-r", more, "-c", kept)
        except BuildFailedError:
            if environment.installed() == before:
                replace_file(folder / _STAMP, stamp)
            return False
        replace_file(folder / _STAMP, noted or stamp)
        return True

    def _make(self, environment: BuildEnvironment, folder: Path, wanted: Sequence[str]) -> None:
        # Also one that was left half made, or is of another Python.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            venv.create(folder, symlinks=True, with_pip=not _pip_serves_others())
        except UnicodeEncodeError as error:
            raise BuildFailedError(
                f"no build environment can be made in {folder}: Python's venv takes no name "
                "that is no text in this locale; rename the folder or, where its name is UTF-8, "
                "set LC_ALL=C.UTF-8"
            ) from error
        except (OSError, subprocess.CalledProcessError) as error:
            if is_refusal(error):
                raise
            raise BuildFailedError(
                f"no build environment could be made in {folder}: {error}"
            ) from error
        if not _pip_serves_others() and sys.version_info < (3, 12):
            # It came with pip; a backend has to ask for it.
            self._pip(environment, folder, "uninstall", "--yes", "setuptools")
        if wanted:
            listed = _listed(folder / "variantwheel-wanted.txt", wanted)
            self._install(environment, wanted, "-r", listed)

    def _install(self, environment: BuildEnvironment, wanted: Sequence[str], *options: str) -> None:
        self._pip(environment, environment.folder, *_INSTALL, *options)
        lacking = environment.lacks(wanted)
        if lacking:
            raise BuildFailedError(
                f"the build environment in {environment.folder} could not be made: pip install "
                f"ended well, and {', '.join(lacking)} is not there; {ADVICE}"
            )

    def _pip(self, environment: BuildEnvironment, folder: Path, *words: str) -> None:
        python = environment.python_executable
        other = [sys.executable, "-m", "pip", "--python", python]
        pip = other if _pip_serves_others() else [python, "-m", "pip"]
        file = folder.with_name(f"{folder.name}.log")
        with file.open("w", encoding="utf-8") as log:
            command = [*pip, *words, "--disable-pip-version-check"]
            exit_code = self._programs.run(command, log.fileno(), placing_variables(os.environ))
        if exit_code != 0:
            text = file.read_text(encoding="utf-8", errors="replace")
            end = "\n".join(f"  | {line}" for line in text.splitlines()[-_TAIL_LINES:])
            raise (SystemRefusedBuildError if _pip_was_refused(text) else BuildFailedError)(
                f"the build environment in {folder} could not be made: pip {words[0]} ended "
                f"with exit code {exit_code}\n  the end of {file}:\n{end}"
            )


def _pip_is_to_judge(requirement: str) -> bool:
    """Tell whether names and versions alone do not show that a requirement is there."""
    try:
        item = Requirement(requirement)
    except InvalidRequirement:
        return True
    here = item.marker is None or item.marker.evaluate({"extra": ""})
    return here and bool(item.extras or item.url)


def _pip_was_refused(text: str) -> bool:
    """Tell by what pip printed whether it failed because of the system.

    >>> _pip_was_refused("ERROR: Could not install packages due to an OSError: [Errno 28] No …")
    True
    >>> _pip_was_refused("ERROR: No matching distribution found for nothing")
    False
    """
    return any(is_refusal(OSError(int(number), "")) for number in _PIPS_OS_ERROR.findall(text))


def _listed(file: Path, requirements: Iterable[str]) -> str:
    """List requirements in a file, because pip honours environment markers there alone."""
    file.write_text("".join(f"{item}\n" for item in requirements), encoding="utf-8")
    return str(file)


def _stamp(python: str, requires: Iterable[str]) -> bytes:
    return json.dumps({"python": python, "requires": sorted(requires)}, indent=1).encode()


def _read_stamp(folder: Path, python: str) -> set[str] | None:
    """Return what the environment in a folder was made of; nothing if it is not whole."""
    try:
        stamp = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return set(stamp["requires"]) if stamp.get("python") == python else None


def _pip_serves_others() -> bool:
    """Whether the pip of this environment can install into another: seconds faster than a copy."""
    try:
        return Version(importlib.metadata.version("pip")) >= _PIP_FOR_OTHERS
    except importlib.metadata.PackageNotFoundError:
        return False
