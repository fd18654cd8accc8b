"""GPU variants where there is no GPU: chosen for stated hardware, sound, at work on the CPU."""

import sys
from pathlib import Path

import pytest

from integration.environments import ROOT, Environment, Release, run
from variantwheel.project import read_project

FEATURES = {("nvidia", "sm_arch"): ("cuda", "NCCL"), ("amd", "gfx_arch"): ("hip", "RCCL")}
DEFINITIONS = {
    item.label: item
    for item in read_project(ROOT).definitions
    if item.variant.features().keys() & FEATURES.keys()
}
# Label: what is stated of the driver and of the devices.
HARDWARE = {
    "cu11": {"CUDA": "11.4", "SM": "8.0"},
    "cu12": {"CUDA": "12.2", "SM": "7.5,9.0"},
    "cu13": {"CUDA": "13.0", "SM": "12.0"},
    "rocm": {"ROCM": "6.3", "GFX": "gfx90a,gfx942"},
}


def test_every_gpu_variant_has_hardware_here() -> None:
    assert set(HARDWARE) == set(DEFINITIONS)


@pytest.mark.parametrize("label", HARDWARE)
def test_the_wheel_holds_code_for_the_declared_gpus_and_reduces_on_the_cpu(
    release: Release, environment: Environment, allreduce_script: Path, label: str
) -> None:
    (wheel,) = release.folder.glob(f"horovod_variants-*-{label}.whl")
    variantwheel = Path(sys.executable).with_name("variantwheel")
    words = ("check", "--pythons", "available", "--project", ROOT)
    checked = run(variantwheel, *words, wheel).stdout
    features = DEFINITIONS[label].variant.features()
    (feature,) = features.keys() & FEATURES.keys()
    (line,) = (line for line in checked.splitlines() if "device code" in line)
    assert all(architecture in line for architecture in features[feature])

    stated = {f"VARIANTWHEEL_ASSUME_{name}": value for name, value in HARDWARE[label].items()}
    environment.pip_install("--index-url", release.index_url, "horovod-variants", env=stated)
    assert environment.installed_label() == label
    shown = environment.run("horovodrun", "--check-build", expect=1)
    kind, nccl = FEATURES[feature]
    assert "[ ] NCCL" in shown
    assert f"code for GPUs: {kind}; no {nccl} (" in shown
    assert f"label: {label} (does not fit this machine" in shown
    printed = environment.run("horovodrun", "-np", "2", "python", allreduce_script)
    assert "allreduce fine on rank 1 of 2" in printed
