"""Commands that mend what a conda solver would choose again, and GPUs that a build leaves idle."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from unit.selector.gpu_release import GPU_INFO
from unit.selector.test_conda_installation import CHANNEL, write_record
from unit.selector.test_verify import install
from unit.selector.tiny_release import make_machine
from variantwheel_selector.cli.verify import _lines
from variantwheel_selector.machine import Machine
from variantwheel_selector.providers.no_gpu import TOOLKIT_ALONE
from variantwheel_selector.providers.x86_64 import LEVEL_FLAGS
from variantwheel_selector.variants_json import render_variants_json
from variantwheel_selector.verify import Verification, verify_distribution

FILES = "/dev/nvidiactl read-write\n/dev/nvidia0 read-write\n"
CPUINFO = f"flags : {' '.join(flag for flags in LEVEL_FLAGS.values() for flag in flags)}\n"
CUDA_13: Mapping[str, list[str]] = {"depends": ["python", "__cuda >=13", "cuda-version >=13,<14"]}
CPU: Mapping[str, object] = {
    "depends": ["python"],
    "constrains": ["tiny-native-gpu <0.0a0", "pytorch >=2.0"],
}
INSTALL = f"conda install --prefix {{prefix}} --channel {CHANNEL} --force-reinstall "
PIXI = "  # once [system-requirements] states this machine, which is what pixi solves for"


def machine_of(files: str, **texts: str) -> Machine:
    return make_machine(texts={"cpuinfo.txt": CPUINFO, "device_files.txt": files, **texts})


def machine_with(cuda: int, *capabilities: tuple[int, int]) -> Machine:
    devices = [{"compute_capability": list(item), "error": 0} for item in capabilities]
    nvml = {
        "library": "libnvidia-ml.so.1", "init": 0, "devices": devices,
        "driver_version": "580.65.06", "cuda_version_error": 0, "cuda_version": cuda,
    }  # fmt: skip
    answers = [
        {"nvml": nvml},
        {"cuda": {"library": "libcuda.so.1", "error": 0, "version": cuda}},
        {"cuda_devices": {"init": 0, "devices": []}},
    ]
    text = "".join(f"{json.dumps(item)}\n" for item in answers)
    return machine_of(FILES, **{"nvidia_driver.txt": text})


WITHOUT_GPU = machine_of("")


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "env"
    monkeypatch.setattr(sys, "prefix", str(made))
    return made


def verified(site: Path, label: str, machine: Machine) -> Verification:
    install(site, installer="conda")
    record = render_variants_json(GPU_INFO.only(label))
    (site / "tiny_native-1.0.dist-info" / "variant.json").write_text(record)
    return verify_distribution("tiny-native", machine)


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        # Too old for the code: the driver is new enough, so that conda would choose the same again.
        (machine_with(13000, (7, 0)), "tiny-native=1.0 'cuda-version<13'"),
        (machine_with(13000, (9, 0), (6, 1)), "tiny-native=1.0 'cuda-version<13'"),
        # The driver is what conda knows about.
        (machine_with(12080, (7, 0)), "tiny-native=1.0"),
        (machine_with(12080, (9, 0)), "tiny-native=1.0"),
        (machine_with(13000), "tiny-native=1.0"),
        (WITHOUT_GPU, "tiny-native=1.0"),
    ],
)
def test_a_build_without_code_for_the_gpu_is_not_chosen_again(
    site: Path, prefix: Path, machine: Machine, wanted: str
) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_cuda13_py311h0123456_550", more=CUDA_13)
    found = verified(site, "cu13", machine)
    assert found.fits is False
    assert found.repair_command == INSTALL.format(prefix=prefix) + wanted


def test_pixi_is_told_which_cuda(site: Path, prefix: Path) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_cuda13_py311h0123456_550", more=CUDA_13)
    (prefix / "conda-meta" / "pixi").touch()
    found = verified(site, "cu13", machine_with(13000, (7, 0)))
    assert found.repair_command == f"pixi add 'cuda-version<13'{PIXI}"


@pytest.mark.parametrize("by_pixi", [False, True])
def test_what_insists_on_a_driver_is_removed_where_there_is_none(
    site: Path, prefix: Path, *, by_pixi: bool
) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_cuda13_py311h0123456_550", more=CUDA_13)
    write_record(prefix, "tiny-native-gpu", "1.0", "0")
    if by_pixi:
        (prefix / "conda-meta" / "pixi").touch()
    found = verified(site, "cu13", WITHOUT_GPU)
    chosen_anew = INSTALL.format(prefix=prefix) + "tiny-native=1.0"
    assert found.repair_command == (
        f"pixi remove tiny-native-gpu && pixi update tiny-native{PIXI}"
        if by_pixi
        else f"conda remove --prefix {prefix} tiny-native-gpu && {chosen_anew}"
    )
    # With a driver for another CUDA it stays.
    assert (
        "remove"
        not in verify_distribution("tiny-native", machine_with(12080, (9, 0))).repair_command
    )


def test_an_idle_gpu_is_told_with_what_would_use_it(site: Path, prefix: Path) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_x86_64_v3_py311h0123456_250", more=CPU)
    found = verified(site, "x86_64_v3", machine_with(12080, (9, 0)))
    assert found.fits is True
    idle = "a device of compute capability 9.0, with a driver for CUDA 12.8 and older"
    command = INSTALL.format(prefix=prefix) + "tiny-native-gpu=1.0"
    assert (found.unused_gpu, found.gpu_command) == (idle, command)
    assert found.to_json()["gpu_command"] == command
    text = "\n".join(_lines(found))
    assert f"  it has no code for GPUs, and there is {idle}\n" in text
    assert text.endswith(f"  a build for it, if a channel has one: {command}")


@pytest.mark.parametrize(
    ("record", "machine"),
    [
        (CPU, WITHOUT_GPU),
        (CPU, machine_with(12080)),
        (CPU, machine_with(10020, (7, 0))),
        ({**CPU, "constrains": ["tiny-native-gpus <0.0a0"]}, machine_with(12080, (9, 0))),
        ({**CPU, "requested_spec": "tiny-native[build=*x86*]"}, machine_with(12080, (9, 0))),
        ({**CPU, "requested_specs": ["tiny-native * *x86*"]}, machine_with(12080, (9, 0))),
    ],
)
def test_nothing_is_said_of_a_gpu_that_no_build_is_known_or_wanted_for(
    site: Path, prefix: Path, record: Mapping[str, object], machine: Machine
) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_x86_64_v3_py311h0123456_250", more=record)
    found = verified(site, "x86_64_v3", machine)
    assert found.fits is True
    assert (found.unused_gpu, found.gpu_command) == ("", "")


def test_settings_for_wheels_are_not_advised(site: Path, prefix: Path) -> None:
    write_record(prefix, "tiny-native", "1.0", "nompi_cuda13_py311h0123456_550", more=CUDA_13)
    toolkit = machine_of("/usr/local/cuda present\n")
    found = verified(site, "cu13", toolkit)
    assert TOOLKIT_ALONE.partition(":")[0] in found.reason
    assert "assume-" not in found.reason
    assert "CONDA_OVERRIDE_CUDA" in found.reason
