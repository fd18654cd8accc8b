"""Machines without any sign of a GPU, which most are: answered without the providers' modules."""

from __future__ import annotations

from variantwheel_selector.machine import (
    DEVICE_FILES,
    GPU_FILES,
    KFD_NODES,
    NVIDIA_DRIVER,
    NVIDIA_SMI,
    PCI_CARDS,
    Machine,
)

NO_NVIDIA = "no NVIDIA device file and no driver"
IMAGE_ADVICE = "an image for machines with a GPU is built with assume-cuda and assume-sm"
TOOLKIT_ALONE = (
    "the CUDA toolkit is in /usr/local/cuda, but there is no NVIDIA device file and no "
    f"driver: {IMAGE_ADVICE}"
)
NO_AMD = "no AMD GPU: there is no /sys/class/kfd with nodes"

_SIGNS = (GPU_FILES, KFD_NODES, NVIDIA_DRIVER, NVIDIA_SMI, PCI_CARDS)
_TOOLKIT = "/usr/local/cuda present"


def absent_gpu(namespace: str, machine: Machine) -> str:
    """Return why a machine without any sign of a GPU supports nothing of a namespace.

    Args:
        namespace: Of any provider.
        machine: The captured facts.

    Returns:
        The reason; empty if a provider has to look at the machine.
    """
    files = machine.texts.get(DEVICE_FILES, "unknown").strip()
    if files not in ("", _TOOLKIT) or any(machine.texts.get(name) for name in _SIGNS):
        return ""
    nvidia = TOOLKIT_ALONE if files == _TOOLKIT else NO_NVIDIA
    return {"nvidia": nvidia, "amd": NO_AMD}.get(namespace, "")
