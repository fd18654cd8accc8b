"""What NVIDIA's libraries answered to `nvidia_query.py`, read from its JSON lines."""

from __future__ import annotations

import json

from variantwheel_selector.parse.compute_cap import MOST_DEVICES, ComputeCapability
from variantwheel_selector.parse.nvidia_version import CudaVersion, decode_cuda_version
from variantwheel_selector.record import record

_LINE_LIMIT = 16 * 1024


@record
class Device:
    """One device.

    Attributes:
        capability: Its compute capability; none if the library did not tell.
        error: What the library returned instead; 0 is success.
        mig: Whether it is divided into MIG instances, which have its compute capability.
    """

    capability: ComputeCapability | None
    error: int | None = 0
    mig: bool = False


@record
class NvmlAnswer:
    """What `libnvidia-ml.so.1` answered; `library` is none if it could not be opened.

    `listed` tells whether it said which devices there are; without, none is not known to be none.
    """

    library: str | None
    problem: str = ""
    init: int | None = None
    driver: str = ""
    cuda: CudaVersion | None = None
    devices: tuple[Device, ...] = ()
    listed: bool = False


@record
class CudaAnswer:
    """What `libcuda.so.1` answered; `library` is none if it could not be opened."""

    library: str | None
    problem: str = ""
    error: int | None = None
    version: CudaVersion | None = None


@record
class CudaDevices:
    """What `cuInit` answered, and the devices after it; `listed` as with NVML."""

    init: int | None
    devices: tuple[Device, ...] = ()
    listed: bool = False


@record
class NvidiaDriver:
    """All answers; a step that was not reached, or whose line is damaged, is none."""

    nvml: NvmlAnswer | None = None
    cuda: CudaAnswer | None = None
    cuda_devices: CudaDevices | None = None

    def capabilities(self) -> tuple[ComputeCapability, ...]:
        """Return the compute capabilities of the devices that answered, NVML's word first."""
        for step in (self.nvml, self.cuda_devices):
            found = tuple(d.capability for d in step.devices if d.capability) if step else ()
            if found:
                return found
        return ()


def parse_nvidia_driver(text: str) -> NvidiaDriver:
    """Read the JSON lines; whatever has another form is passed over.

    The text looks like this; a process that crashed or hung leaves the first lines::

        {"nvml": {"library": "libnvidia-ml.so.1", "init": 0, "driver_version": "580.65.06",
         "cuda_version": 13000, "cuda_version_error": 0, "count_error": 0,
         "devices": [{"error": 0, "compute_capability": [9, 0], "mig": false}]}}
        {"cuda": {"library": "libcuda.so.1", "error": 0, "version": 13000}}
        {"cuda_devices": {"init": 0, "devices": [{"error": 0, "compute_capability": [9, 0]}]}}
    """
    steps: dict[str, dict[str, object]] = {}
    for line in text.split("\n"):
        if not line.startswith("{") or len(line) > _LINE_LIMIT:
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        steps |= {step: item for step, item in found.items() if isinstance(item, dict)}
    nvml, cuda, listed = (steps.get(step) for step in ("nvml", "cuda", "cuda_devices"))
    return NvidiaDriver(
        nvml=None if nvml is None else _nvml(nvml),
        cuda=None if cuda is None else _cuda(cuda),
        cuda_devices=None
        if listed is None
        else CudaDevices(
            _integer(listed.get("init")), _devices(listed.get("devices")), _listed(listed)
        ),
    )


def _nvml(content: dict[str, object]) -> NvmlAnswer:
    told = content.get("cuda_version_error") == 0
    return NvmlAnswer(
        library=_string(content.get("library")) or None,
        problem=_string(content.get("problem")),
        init=_integer(content.get("init")),
        driver=_string(content.get("driver_version")),
        cuda=_version(content.get("cuda_version")) if told else None,
        devices=_devices(content.get("devices")),
        listed=_listed(content),
    )


def _cuda(content: dict[str, object]) -> CudaAnswer:
    error = _integer(content.get("error"))
    return CudaAnswer(
        library=_string(content.get("library")) or None,
        problem=_string(content.get("problem")),
        error=error,
        version=_version(content.get("version")) if error == 0 else None,
    )


def _listed(content: dict[str, object]) -> bool:
    return isinstance(content.get("devices"), list) and content.get("count_error", 0) == 0


def _devices(value: object) -> tuple[Device, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_device(item) for item in value[:MOST_DEVICES] if isinstance(item, dict))


def _device(content: dict[str, object]) -> Device:
    error = _integer(content.get("error"))
    numbers = content.get("compute_capability")
    capability: ComputeCapability | None = None
    if error == 0 and isinstance(numbers, list) and len(numbers) == 2:
        major, minor = (_integer(number) for number in numbers)
        if major is not None and minor is not None and 1 <= major <= 99 and 0 <= minor <= 9:
            capability = (major, minor)
    return Device(capability, error, mig=content.get("mig") is True)


def _version(value: object) -> CudaVersion | None:
    number = _integer(value)
    return None if number is None else decode_cuda_version(number)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _string(value: object) -> str:
    return value[:300] if isinstance(value, str) else ""
