"""What a machine's texts say about NVIDIA: is there a device, can it be used, and if not, why."""

from __future__ import annotations

from collections.abc import Mapping

from variantwheel_selector.fact import Fact, No, Unknown, Yes
from variantwheel_selector.machine import (
    DEVICE_FILES,
    GPU_ENVIRONMENT,
    GPU_FILES,
    NVIDIA_DRIVER,
    NVIDIA_SMI,
    PCI_CARDS,
    Machine,
)
from variantwheel_selector.parse.compute_cap import ComputeCapability, parse_compute_cap
from variantwheel_selector.parse.device_files import (
    parse_device_files,
    parse_environment,
    parse_file_lines,
)
from variantwheel_selector.parse.nvidia_driver import Device, NvidiaDriver, parse_nvidia_driver
from variantwheel_selector.parse.nvidia_version import (
    CudaVersion,
    cuda_of_driver,
    parse_driver_version,
)
from variantwheel_selector.parse.pci import VENDORS, PciCard, parse_pci_cards
from variantwheel_selector.providers.no_gpu import NO_NVIDIA, TOOLKIT_ALONE
from variantwheel_selector.record import field, record

# Return codes in nvml.h and cuda.h.
_NVML_LIBRARY_MISMATCH = 18
_CUDA_STUB_LIBRARY = 34
_CUDA_NO_DEVICE = 100
_CUDA_FORWARD_COMPATIBILITY = {
    803: "cuInit answers 803: libcuda does not fit the kernel driver",
    804: "cuInit answers 804: CUDA forward compatibility is not supported on this device",
}
_FIRST_TEGRA_LIKE_A_SERVER = 11  # Thor runs what is built for Arm servers; Orin and older do not


@record
class NvidiaFacts:
    """What is known.

    Attributes:
        cuda: The newest CUDA version that the driver supports.
        capabilities: The compute capabilities of all devices that answered, sorted.
        notes: What else should be known about the answer, in words.
    """

    cuda: Fact[CudaVersion]
    capabilities: Fact[tuple[ComputeCapability, ...]]
    notes: tuple[str, ...] = ()


@record
class _Evidence:
    """The texts, parsed."""

    files: Mapping[str, str]
    lines: Mapping[str, str]
    driver: NvidiaDriver
    kernel_driver: str | None
    unknown: Mapping[str, str]
    cards: tuple[PciCard, ...] = ()
    notes: list[str] = field(default_factory=list)

    @property
    def tegra(self) -> bool:
        """Whether this is a Jetson or its like."""
        return (
            "/dev/nvhost-gpu" in self.files
            or "/dev/nvgpu" in self.files
            or self.lines.get("/sys/devices/soc0/family") == "Tegra"
        )

    @property
    def driver_words(self) -> str:
        """The kernel driver, for sentences."""
        return f"driver {self.kernel_driver}" if self.kernel_driver else "a driver"


def nvidia_facts(machine: Machine) -> NvidiaFacts:
    """Return what a machine's texts say about NVIDIA devices."""
    if DEVICE_FILES not in machine.texts:
        why = machine.unknown.get("device_files", "the machine's device files were not captured")
        return NvidiaFacts(Unknown(why), Unknown(why))
    lines = parse_file_lines(machine.texts.get(GPU_FILES, ""))
    driver = parse_nvidia_driver(machine.texts.get(NVIDIA_DRIVER, ""))
    told = driver.nvml.driver if driver.nvml else ""
    evidence = _Evidence(
        parse_device_files(machine.texts[DEVICE_FILES]),
        lines,
        driver,
        parse_driver_version(lines.get("/sys/module/nvidia/version", ""))
        or parse_driver_version(lines.get("/proc/driver/nvidia/version", ""))
        or parse_driver_version(told),
        machine.unknown,
        tuple(
            card
            for card in parse_pci_cards(machine.texts.get(PCI_CARDS, ""))
            if VENDORS[card.vendor] == "NVIDIA"
        ),
    )
    unusable = _without_device(evidence) or _without_library(evidence)
    if unusable is not None:
        return NvidiaFacts(unusable, unusable)
    capabilities = _capabilities(evidence, machine)
    if isinstance(capabilities, No):
        return NvidiaFacts(capabilities, capabilities)
    cuda = _cuda(evidence, capabilities)
    if evidence.kernel_driver:
        evidence.notes.insert(0, f"driver {evidence.kernel_driver}")
    variables = parse_environment(machine.texts.get(GPU_ENVIRONMENT, ""))
    if "CUDA_VISIBLE_DEVICES" in variables:
        evidence.notes.append("CUDA_VISIBLE_DEVICES is set and does not count for the choice")
    return NvidiaFacts(cuda, capabilities, tuple(evidence.notes))


def _without_device(evidence: _Evidence) -> No | None:
    """Return why there is no device that this process can use, as far as files tell."""
    devices = {path: state for path, state in evidence.files.items() if path.startswith("/dev/nv")}
    if evidence.files.get("/dev/dxg") == "read-write" or evidence.tegra:
        return None
    control = devices.get("/dev/nvidiactl")
    if control == "read-write":
        return None
    if control is not None:
        return No(
            "/dev/nvidiactl is there but this process may not use it: check the permissions of "
            "/dev/nvidia* and the container's device rules"
        )
    if evidence.files.get("/dev/dxg") is not None:
        return No("/dev/dxg is there but this process may not use it")
    if evidence.kernel_driver or devices:
        return No(
            f"{evidence.driver_words} runs on the host, but there is no /dev/nvidiactl here: "
            "start the container with --gpus all, or ask the scheduler for a GPU"
        )
    if evidence.cards:
        card = evidence.cards[0]
        return No(
            f"an NVIDIA card is in the machine ({card.words()}), but NVIDIA's driver is not "
            "loaded: install it, or hand the card back to it"
        )
    if "/usr/local/cuda" in evidence.files:
        return No(TOOLKIT_ALONE)
    return No(NO_NVIDIA)


def _without_library(evidence: _Evidence) -> No | Unknown | None:
    """Return why NVIDIA's libraries cannot use a device."""
    nvml, cuda = evidence.driver.nvml, evidence.driver.cuda
    if nvml is not None and nvml.init == _NVML_LIBRARY_MISMATCH:
        return Unknown(
            f"NVML answers error 18: libnvidia-ml and the loaded kernel {evidence.driver_words} "
            "are of different versions; restart the machine after a driver update"
        )
    if nvml is None and cuda is None:
        return None  # nothing was answered: the kernel driver's version may still say something
    if cuda is None:
        trouble = evidence.unknown.get("nvidia_driver", "libcuda.so.1 was not asked")
        return Unknown(f"{trouble}, before libcuda.so.1 answered")
    if cuda.library is None and nvml is not None and nvml.library is not None:
        return No(
            "libnvidia-ml.so.1 can be opened but libcuda.so.1 cannot, as in a container with "
            "NVIDIA_DRIVER_CAPABILITIES=utility: use compute,utility"
            f"{_in_brackets(cuda.problem)}"
        )
    if cuda.library is None:
        return No(
            "neither libcuda.so.1 nor libnvidia-ml.so.1 can be opened: the driver's libraries are "
            f"not installed here{_in_brackets(cuda.problem)}"
        )
    if cuda.error == _CUDA_STUB_LIBRARY:
        return No(f"{cuda.library} is the CUDA toolkit's stub (error 34), not the driver's library")
    return _after_start(evidence)


def _after_start(evidence: _Evidence) -> No | Unknown | None:
    """Return why `cuInit` leaves no device to use."""
    listed = evidence.driver.cuda_devices
    if listed is None:
        trouble = evidence.unknown.get("nvidia_driver", "cuInit was not asked")
        evidence.notes.append(f"not confirmed by cuInit: {trouble}")
        return None
    if listed.init == 0:
        return None
    if listed.init == _CUDA_STUB_LIBRARY:
        return No("libcuda.so.1 is the CUDA toolkit's stub (error 34), not the driver's library")
    if listed.init == _CUDA_NO_DEVICE:
        return No(f"{evidence.driver_words} answers, but CUDA finds no device (cuInit answers 100)")
    if listed.init in _CUDA_FORWARD_COMPATIBILITY:
        return None
    return Unknown(f"cuInit answers error {listed.init}, so that no device can be used")


def _cuda(
    evidence: _Evidence, capabilities: Fact[tuple[ComputeCapability, ...]]
) -> Fact[CudaVersion]:
    driver = evidence.driver
    native = cuda_of_driver(evidence.kernel_driver) if evidence.kernel_driver else None
    init = driver.cuda_devices.init if driver.cuda_devices else None
    if init in _CUDA_FORWARD_COMPATIBILITY:
        words = _CUDA_FORWARD_COMPATIBILITY[init]
        if native is None:
            return Unknown(f"{words}, and the kernel driver's own CUDA version is not known")
        evidence.notes.append(words)
        return Yes(native, "what the kernel driver brings by itself")
    if driver.nvml is not None and driver.nvml.cuda is not None:
        return Yes(driver.nvml.cuda, "NVML")
    if driver.cuda is not None and driver.cuda.version is not None:
        return Yes(driver.cuda.version, "cuDriverGetVersion")
    if native is None or not isinstance(capabilities, Yes):
        # The kernel driver's version alone does not say that a process can use it.
        return Unknown(
            evidence.unknown.get("nvidia_driver", "NVIDIA's libraries told no CUDA version")
        )
    return Yes(native, "the kernel driver's version")


def _capabilities(evidence: _Evidence, machine: Machine) -> Fact[tuple[ComputeCapability, ...]]:
    nvml, listed = evidence.driver.nvml, evidence.driver.cuda_devices
    source, devices = "NVML", nvml.devices if nvml and nvml.init == 0 else ()
    if not any(device.capability for device in devices) and listed and listed.devices:
        source, devices = "cuDeviceGetAttribute", listed.devices
    found = {device.capability for device in devices if device.capability is not None}
    if not found:
        from_tool = parse_compute_cap(machine.texts.get(NVIDIA_SMI, ""))
        if from_tool:
            source, found = "nvidia-smi", set(from_tool)
    _note_devices(evidence, devices)
    if found:
        if evidence.tegra and max(found)[0] < _FIRST_TEGRA_LIKE_A_SERVER:
            return No(
                "this is a Jetson, and code for Arm servers does not run on its GPU "
                f"(compute capability {_words(found)})"
            )
        return Yes(tuple(sorted(found)), source)
    told = any(step.init == 0 and step.listed for step in (nvml, listed) if step is not None)
    if told and all(device.error not in (0, None) for device in devices):
        return No(f"{evidence.driver_words} answers, but no device does")
    trouble = machine.unknown.get("nvidia_driver") or machine.unknown.get("nvidia_smi")
    return Unknown(trouble or "no library told the devices' compute capabilities")


def _note_devices(evidence: _Evidence, devices: tuple[Device, ...]) -> None:
    lost = [f"device {i} (error {d.error})" for i, d in enumerate(devices) if d.capability is None]
    if lost and len(lost) < len(devices):
        evidence.notes.append(f"no answer from {', '.join(lost)}")
    divided = sum(device.mig for device in devices)
    if divided:
        evidence.notes.append(f"MIG is on for {divided} of {len(devices)} devices")


def _words(capabilities: set[ComputeCapability]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in sorted(capabilities))


def _in_brackets(problem: str) -> str:
    return f" ({problem})" if problem else ""
