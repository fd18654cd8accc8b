"""Virtual environments as users have them, and what a maintainer released, for the tests."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = "horovod-variants"
STEP_TIMEOUT = 900  # seconds; a build from the sources takes minutes on a busy machine


def run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    expect: int | None = 0,
    timeout: float = STEP_TIMEOUT,
) -> subprocess.CompletedProcess[str]:
    """Runs a command; its output is shown when the exit code is not the expected one."""
    done = subprocess.run(
        [str(word) for word in command],
        check=False,
        env=env,
        cwd=cwd,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
    )
    if expect is not None and done.returncode != expect:
        pytest.fail(f"{command} ended with {done.returncode}, not {expect}:\n{done.stdout}")
    return done


@dataclass(frozen=True)
class Release:
    """What a maintainer made: the folder with the files, and the site that is served."""

    folder: Path
    site: Path
    index_url: str

    @property
    def sdist(self) -> Path:
        (found,) = self.folder.glob("horovod_variants-*.tar.gz")
        return found

    def wheel(self, label: str) -> Path:
        (found,) = self.folder.glob(f"horovod_variants-*-{label}.whl")
        return found


@dataclass(frozen=True)
class Environment:
    """A virtual environment, as a user has one: nothing of this machine's pip or uv settings."""

    folder: Path
    variables: dict[str, str] = field(repr=False)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(
        self,
        *command: str | Path,
        expect: int | None = 0,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> str:
        """Runs a program of this environment; gives what it printed, both streams."""
        program = self.folder / "bin" / str(command[0])
        words = [program if program.exists() else command[0], *command[1:]]
        return run(*words, env=self.variables | (env or {}), cwd=cwd, expect=expect).stdout

    def pip_install(
        self, *arguments: str | Path, expect: int | None = 0, env: dict[str, str] | None = None
    ) -> str:
        return self.run("python", "-m", "pip", "install", *arguments, expect=expect, env=env)

    def dist_info(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages/horovod_variants-*.dist-info")
        return found

    def decision(self) -> dict[str, object]:
        text = (self.dist_info() / "variant-decision.json").read_text(encoding="utf-8")
        decision = json.loads(text)
        assert isinstance(decision, dict)
        return decision

    def installed_label(self) -> str:
        """The label that the installed variant.json names."""
        found = json.loads((self.dist_info() / "variant.json").read_text(encoding="utf-8"))
        (label,) = found["variants"]
        return str(label)


def plain_variables() -> dict[str, str]:
    """The environment without settings of pip, uv, horovod and the test runner."""
    foreign = (
        "PIP_",
        "UV_",
        "VARIANTWHEEL_",
        "HOROVOD_",
        "_HOROVOD",
        "NOX_",
        "VIRTUAL_ENV",
        "PYTHON",
    )
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
