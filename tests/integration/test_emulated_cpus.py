"""The same `pip install` on older and newer CPUs, all emulated; a wheel on the wrong one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.environments import Environment, Release, run

PROJECT = "horovod-variants"


@pytest.mark.emulation
@pytest.mark.parametrize(
    ("model", "label"),
    # Nehalem comes below.
    [("qemu64", "null"), ("Haswell-noTSX", "x86_64_v3")],
)
def test_each_cpu_gets_what_it_can_run(
    release: Release,
    emulated: Callable[[str], Environment],
    allreduce_script: Path,
    model: str,
    label: str,
) -> None:
    environment = emulated(model)
    environment.pip_install("--index-url", release.index_url, PROJECT)
    assert environment.decision()["label"] == environment.installed_label() == label
    environment.run("variantwheel", "verify", PROJECT)
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "allreduce fine on rank 1 of 2" in printed
    assert "using the baseline" not in printed


@pytest.mark.emulation
def test_the_wheel_of_a_newer_machine_falls_back_and_is_mended(
    release: Release,
    emulated: Callable[[str], Environment],
    create_with_pip: Callable[[Path], None],
    native_label: str,
    allreduce_script: Path,
    tmp_path: Path,
) -> None:
    """pip's cache on a shared home: a newer machine fills it, an older one takes its wheel."""
    if native_label != "x86_64_v3":
        pytest.skip("no AVX2: this machine is the older one itself")
    environment = emulated("Nehalem")
    newer = tmp_path / "newer"
    create_with_pip(newer)
    index = ("--index-url", release.index_url)
    run(newer / "bin/python", "-m", "pip", "install", *index, PROJECT, env=environment.variables)
    environment.pip_install(*index, PROJECT)
    assert environment.installed_label() == "x86_64_v3", "the hazard"
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "allreduce fine on rank 0 of 2" in printed
    assert "allreduce fine on rank 1 of 2" in printed
    warnings = [line for line in printed.splitlines() if "x86_64_v3" in line]
    assert len(warnings) == 1, printed
    repair = "pip install --no-cache-dir --force-reinstall --no-deps horovod-variants"
    assert repair in warnings[0]
    assert repair in environment.run("variantwheel", "verify", PROJECT, expect=1)
    environment.run("python", "-m", *repair.split(), env={"PIP_INDEX_URL": release.index_url})
    assert environment.installed_label() == "null"
    environment.run("variantwheel", "verify", PROJECT)
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "allreduce fine on rank 1 of 2" in printed
    assert "x86_64_v3" not in printed
