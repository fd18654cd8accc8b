"""How a conda package that does not suit a machine is mended.

Solvers choose by what conda finds out: the driver's CUDA version, and of GPUs their architecture
where the client knows `__cuda_arch` (CEP 46). Where it does not, the same solver chooses the same
build again, unless it is told what is wrong with that.
"""

from __future__ import annotations

from collections.abc import Mapping

from variantwheel_selector.conda_installation import CondaInstallation
from variantwheel_selector.machine import Machine
from variantwheel_selector.matching import judge_properties
from variantwheel_selector.model import Variant
from variantwheel_selector.providers import Support, SupportedFeature, supported
from variantwheel_selector.providers.no_gpu import IMAGE_ADVICE
from variantwheel_selector.providers.nvidia import LOWER_BOUND, NAMESPACE, SM_ARCH

_CONDAS_ADVICE = "an image for machines with a GPU is built with CONDA_OVERRIDE_CUDA"


def mending_command(
    conda: CondaInstallation, variant: Variant, support: Mapping[str, Support]
) -> str:
    """Return the command that mends a misfit.

    Args:
        conda: What is installed.
        variant: What its record says that it needs.
        support: What the machine supports, by namespace.
    """
    answer = support.get(NAMESPACE, Support(NAMESPACE))
    if conda.cuda and _lacks_code_alone(variant, answer):
        return conda.command(conda.requirement, f"cuda-version<{conda.cuda}")
    if conda.gpu_package_installed and answer.absent:
        # It insists on a driver.
        return conda.command(conda.requirement, without=conda.gpu_package)
    return conda.repair_command


def in_condas_words(reason: str) -> str:
    """Return a reason with conda's settings in place of those for wheels, which conda ignores."""
    return reason.replace(IMAGE_ADVICE, _CONDAS_ADVICE)


def unused_gpu(conda: CondaInstallation, variant: Variant, machine: Machine) -> str:
    """Return the GPU that a build without GPU code leaves idle, in words; empty if there is none.

    Empty as well where no build is known that would use it, or where this one was asked for.
    """
    others = {item.namespace for item in variant.properties}
    if conda.cuda or not conda.gpu_package or conda.build_asked_for or "amd" in others:
        return ""
    answer = supported(machine)[NAMESPACE]
    devices, driver = _feature(answer, SM_ARCH), _feature(answer, LOWER_BOUND)
    if devices is None or driver is None or not driver.values or not _has_devices(devices):
        return ""
    return f"{devices.words()}, with a driver for {driver.words()}"


def _lacks_code_alone(variant: Variant, answer: Support) -> bool:
    """Tell whether nothing but machine code for the devices that are there is missing."""
    code = tuple(item for item in variant.properties if item.feature == SM_ARCH)
    rest = tuple(item for item in variant.properties if item.feature != SM_ARCH)
    devices = _feature(answer, SM_ARCH)
    if not code or devices is None or not _has_devices(devices):
        return False
    verdicts = [
        judge_properties(Variant(variant.label, part), [NAMESPACE], {NAMESPACE: answer}).fits
        for part in (code, tuple(item for item in rest if item.namespace == NAMESPACE))
        if part
    ]
    return verdicts[0] is False and all(verdicts[1:])


def _has_devices(feature: SupportedFeature) -> bool:
    return bool(feature.values or feature.each_device)


def _feature(answer: Support, name: str) -> SupportedFeature | None:
    return next((item for item in answer.features if item.name == name), None)
