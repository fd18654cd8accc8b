"""Provider of the namespace `nvidia`: CUDA versions of the driver, architectures of the devices.

The values are those of the provider that uv has built in. A variant must serve *every* device, not
the best one. `90_real` is machine code for compute capability 9.0, which devices of the same major
and an equal or higher minor number run; `90_virtual` is PTX, which the driver translates for
devices of 9.0 or more. The driver must know the toolkit that made the PTX: who ships PTX states
that toolkit's version as `cuda_version_lower_bound`.
"""

from __future__ import annotations

from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumptions
from variantwheel_selector.fact import Fact, No, Unknown, Yes
from variantwheel_selector.machine import Machine
from variantwheel_selector.parse.compute_cap import ComputeCapability
from variantwheel_selector.parse.nvidia_version import CudaVersion
from variantwheel_selector.providers.nvidia_facts import nvidia_facts
from variantwheel_selector.providers.support import Support, SupportedFeature

NAMESPACE = "nvidia"
LOWER_BOUND, UPPER_BOUND, SM_ARCH = (
    "cuda_version_lower_bound",
    "cuda_version_upper_bound",
    "sm_arch",
)

_OLDEST_CUDA = 11
_HIGHEST_UPPER_BOUND = 15
_HIGHEST_MINOR = 20
_PTX_MAJORS = (5, 6, 7, 8, 9, 10, 11, 12)


def supported(machine: Machine, assumptions: Assumptions = NOTHING_ASSUMED) -> Support:
    """Return what the driver and all devices of a machine support."""
    facts = nvidia_facts(machine)
    cuda, capabilities, notes = facts.cuda, facts.capabilities, facts.notes
    if assumptions.cuda is not None:
        origin = f"assumed by {assumptions.cuda.origin}"
        if assumptions.cuda.value is None:
            cuda = No(f"none, {origin}")
            # Without a driver there is no device either, unless someone says so.
            capabilities, notes = cuda, ()
        else:
            cuda = Yes(assumptions.cuda.value, origin)
    if assumptions.sm is not None:
        origin = f"assumed by {assumptions.sm.origin}"
        value = assumptions.sm.value
        capabilities = No(f"none, {origin}") if value is None else Yes(value, origin)
    if isinstance(cuda, Yes) and cuda.value[0] < _OLDEST_CUDA:
        cuda = No(f"the driver supports CUDA {_dotted(cuda.value)}, {_OLDEST_CUDA}.0 is the oldest")
    if isinstance(cuda, No) and isinstance(capabilities, No):
        return Support(NAMESPACE, absent=cuda.reason)
    if isinstance(cuda, Unknown) and not isinstance(capabilities, Yes):
        return Support(NAMESPACE, unknown=cuda.reason)
    remarks = "".join(f"; {note}" for note in notes)
    return Support(NAMESPACE, (*_cuda_features(cuda, remarks), _sm_feature(capabilities, remarks)))


def lower_bounds(cuda: CudaVersion) -> tuple[str, ...]:
    """Return the versions that a driver of CUDA version `cuda` reaches, newest first."""
    newest, newest_minor = cuda
    values: list[str] = []
    for major in range(newest, _OLDEST_CUDA - 1, -1):
        highest = newest_minor if major == newest else _HIGHEST_MINOR
        values += [f"{major}.{minor}" for minor in range(highest, -1, -1)]
        values.append(str(major))
    return tuple(values)


def upper_bounds(cuda: CudaVersion) -> tuple[str, ...]:
    """Return the versions that a driver of CUDA version `cuda` stays below, newest first."""
    own, own_minor = cuda
    values: list[str] = []
    for major in range(max(_HIGHEST_UPPER_BOUND, own + 1), own, -1):
        values += [f"{major}.{minor}" for minor in range(_HIGHEST_MINOR, -1, -1)]
        values.append(str(major))
    return (*values, *(f"{own}.{minor}" for minor in range(_HIGHEST_MINOR, own_minor, -1)))


def architectures(capability: ComputeCapability) -> tuple[str, ...]:
    """Return the code that a device runs, best first: its own, older code of its major, PTX."""
    major, minor = capability
    real = [f"{major}{number}_real" for number in range(minor, -1, -1)]
    older = [number for number in reversed(_PTX_MAJORS) if number < major]
    return (*real, *(f"{number}0_virtual" for number in (major, *older)))


def _cuda_features(cuda: Fact[CudaVersion], remarks: str) -> tuple[SupportedFeature, ...]:
    if not isinstance(cuda, Yes):
        unknown = cuda.reason if isinstance(cuda, Unknown) else ""
        return tuple(
            SupportedFeature(name, (), cuda.reason, unknown=unknown)
            for name in (LOWER_BOUND, UPPER_BOUND)
        )
    version, basis = _dotted(cuda.value), f"{cuda.source}{remarks}"
    return (
        SupportedFeature(
            LOWER_BOUND, lower_bounds(cuda.value), basis, summary=f"CUDA {version} and older"
        ),
        SupportedFeature(
            UPPER_BOUND, upper_bounds(cuda.value), basis, summary=f"bounds above CUDA {version}"
        ),
    )


def _sm_feature(
    capabilities: Fact[tuple[ComputeCapability, ...]], remarks: str
) -> SupportedFeature:
    if not isinstance(capabilities, Yes):
        unknown = capabilities.reason if isinstance(capabilities, Unknown) else ""
        return SupportedFeature(SM_ARCH, (), capabilities.reason, unknown=unknown)
    each = {_dotted(item): architectures(item) for item in capabilities.value}
    first, *others = each.values()
    for_all = tuple(value for value in first if all(value in other for other in others))
    kinds = "a device" if len(each) == 1 else "devices"
    return SupportedFeature(
        SM_ARCH,
        for_all,
        f"{capabilities.source}{remarks}",
        summary=f"{kinds} of compute capability {', '.join(each)}",
        each_device=each if len(each) > 1 else {},
    )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
