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

ABSENT = {
    "nvidia": "no NVIDIA device file and no driver",
    "amd": "no AMD GPU: there is no /sys/class/kfd with nodes",
}
"""By namespace of a provider for GPUs, why nothing of the kind is supported."""

_SIGNS = (GPU_FILES, KFD_NODES, NVIDIA_DRIVER, NVIDIA_SMI, PCI_CARDS)


def without_sign(machine: Machine) -> bool:
    """Tell whether someone looked for GPUs, and found no device, driver, library or card."""
    texts = machine.texts
    return texts.get(DEVICE_FILES) == "" and not any(texts.get(name) for name in _SIGNS)
