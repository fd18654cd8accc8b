"""Every CPython of this machine installs the one wheel and trains with it on two ranks."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from integration.environments import ROOT, Environment, Release, plain_variables, run
from variantwheel.interpreters import find_interpreters, module_abis
from variantwheel.project import read_project

UV = Path(sys.executable).with_name("uv")


def test_each_cpython_runs_an_allreduce(
    release: Release, allreduce_script: Path, tmp_path: Path
) -> None:
    pythons = read_project(ROOT).pythons
    found = find_interpreters((*pythons.versions, *pythons.optional), [], os.environ)
    assert found.interpreters
    for interpreter in found.interpreters:
        folder = tmp_path / interpreter.abi
        run(UV, "venv", "--quiet", "--python", str(interpreter.program), folder)
        variables = plain_variables() | {
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(folder),
            "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
            "UV_NO_CONFIG": "1",
        }
        environment = Environment(folder, variables)
        environment.run(UV, "pip", "install", "--index-url", release.index_url, "horovod-variants")
        printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
        assert "allreduce fine on rank 0 of 2" in printed
        assert "allreduce fine on rank 1 of 2" in printed
        (module,) = folder.glob(
            f"lib/*/site-packages/horovod/_native/_bindings.*-{interpreter.abi[2:]}-*"
        )
        modules = list(module.parent.glob("_bindings.*.so"))
        assert len(modules) == len(found.interpreters), "the wheel serves them all"
        module.unlink()
        printed = environment.run("python", "-c", "import horovod.array", expect=1)
        assert "for this Python, only _bindings." in printed


@pytest.mark.parametrize("label", ["null", "x86_64_v3"])
def test_a_wheel_for_all_cpythons_would_keep_to_its_budget(release: Release, label: str) -> None:
    """A release has modules for CPythons that this machine lacks, one of them free-threaded."""
    project = read_project(ROOT)
    (definition,) = (each for each in project.definitions if each.label == label)
    platform = definition.platform_for("x86_64")
    assert platform is not None
    assert platform.size_budget_kb is not None
    with zipfile.ZipFile(release.wheel(label)) as wheel:
        modules = [entry for entry in wheel.infolist() if module_abis([entry.filename])]
    missing = len(project.pythons.versions) + 1 - len(modules)
    largest = max(entry.compress_size for entry in modules)
    expected = release.wheel(label).stat().st_size + missing * largest
    assert expected <= platform.size_budget_kb * 1024
