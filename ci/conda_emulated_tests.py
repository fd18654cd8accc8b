"""Runs the tests in a package of another platform: rattler-build solves for its own machine alone.

What the package's recipe asks for in `tests` is done in an environment of that platform, whose
Python runs on an emulated CPU (see `conda_cross.py`). What only looks at the content rattler-build
does.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rattler
import rattler.package_streaming
from conda_client import virtual_packages
from rattler.exceptions import SolverError
from ruamel.yaml import YAML

_DEADLINE = 900


class EmulatedTestError(Exception):
    """A test in a package failed; the text is what it printed."""


async def run_tests(package: Path, channels: Sequence[str]) -> list[str]:
    """Installs a package into a fresh environment and runs its tests there.

    Args:
        package: The file.
        channels: URLs; one of them holds the package.

    Returns:
        The commands that ran.

    Raises:
        EmulatedTestError: It cannot be installed, or a test failed.
    """
    with tempfile.TemporaryDirectory(prefix="conda-emulated-") as name:
        content, prefix = Path(name) / "content", Path(name) / "env"
        rattler.package_streaming.extract(package, content)
        index = json.loads((content / "info" / "index.json").read_text(encoding="utf-8"))
        tests = content / "info" / "tests" / "tests.yaml"
        scripts = list(map(_script, YAML(typ="safe").load(tests.read_text(encoding="utf-8"))))
        await _install(index, channels, prefix)
        for cwd, lines in filter(None, scripts):
            _run(lines, prefix / cwd, prefix)
        return [line for script in scripts if script for line in script[1]]


def _script(test: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Where a test runs and what; none for one that only looks at the content."""
    if "python" in test:
        imports = [f"python -c 'import {name}'" for name in test["python"]["imports"]]
        checked = ["python -m pip check"] if test["python"].get("pip_check", True) else []
        return ".", [*imports, *checked]
    if "script" in test:
        return test["script"].get("cwd", "."), list(test["script"]["content"])
    return None


async def _install(index: Mapping[str, Any], channels: Sequence[str], prefix: Path) -> None:
    machine = {"archspec": os.environ["CONDA_OVERRIDE_ARCHSPEC"]}
    if os.environ.get("CONDA_OVERRIDE_CUDA"):
        machine["cuda"] = os.environ["CONDA_OVERRIDE_CUDA"]
    try:
        records = await rattler.solve(
            sources=channels,
            specs=[f"{index['name']} =={index['version']} {index['build']}", "pip"],
            platforms=[index["subdir"], "noarch"],
            virtual_packages=virtual_packages(machine),
        )
    except SolverError as error:
        raise EmulatedTestError(str(error)) from error
    # A cache of its own: packages of local channels change without changing their names.
    with tempfile.TemporaryDirectory(prefix="conda-cache-") as cache:
        await rattler.install(
            records, target_prefix=prefix, cache_dir=Path(cache), show_progress=False,
            platform=rattler.Platform(index["subdir"]),
        )  # fmt: skip


def _run(lines: Sequence[str], cwd: Path, prefix: Path) -> None:
    done = subprocess.run(
        ["sh", "-e", "-x", "-c", "\n".join(lines)],
        cwd=cwd, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, timeout=_DEADLINE,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "CONDA_PREFIX": str(prefix),
        },
    )  # fmt: skip
    if done.returncode != 0:
        raise EmulatedTestError(f"exit code {done.returncode}:\n{done.stdout}")
