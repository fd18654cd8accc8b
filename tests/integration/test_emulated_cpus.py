"""The same `pip install` on older and newer CPUs, all emulated; a wheel on the wrong one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.environments import Environment, Release

PROJECT = "horovod-variants"


@pytest.mark.emulation
@pytest.mark.parametrize(
    ("model", "label"),
    [("qemu64", "null"), ("Nehalem", "null"), ("Haswell-noTSX", "x86_64_v3")],
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
def test_the_v3_wheel_on_an_older_cpu_falls_back_and_says_how_to_mend_it(
    release: Release,
    emulated: Callable[[str], Environment],
    allreduce_script: Path,
    tmp_path: Path,
) -> None:
    """What a shared pip cache or home directory does: the wheel of another machine."""
    wheel = release.wheel("x86_64_v3")
    plain = tmp_path / wheel.name.replace("-x86_64_v3.whl", ".whl")
    shutil.copyfile(wheel, plain)
    (selector,) = release.folder.glob("variantwheel_selector-*.whl")
    environment = emulated("Nehalem")
    environment.pip_install("--no-index", "--no-deps", plain, selector)
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "allreduce fine on rank 0 of 2" in printed
    assert "allreduce fine on rank 1 of 2" in printed
    warnings = [line for line in printed.splitlines() if "x86_64_v3" in line]
    assert len(warnings) == 1, printed
    repair = "pip install --no-cache-dir --force-reinstall --no-deps horovod-variants"
    assert repair in warnings[0]
    verified = environment.run("variantwheel", "verify", PROJECT, expect=1)
    assert repair in verified
