"""Facts that the user states about the machine instead of what is found out.

A stated fact replaces the detection of that fact alone: an image that is built where there is no
GPU, or a login node, can thus be told what the machines are like that will run the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from variantwheel_selector.errors import SettingsError
from variantwheel_selector.parse.compute_cap import ComputeCapability, compute_capability
from variantwheel_selector.parse.nvidia_version import (
    CudaVersion,
    cuda_of_driver,
    cuda_version,
    parse_driver_version,
)
from variantwheel_selector.parse.rocm_version import RocmVersion, rocm_version

T = TypeVar("T")

_PREFIX = "VARIANTWHEEL_ASSUME_"
_CUDA, _SM, _GFX, _ROCM, _CPU = (
    f"{_PREFIX}{name}" for name in ("CUDA", "SM", "GFX", "ROCM", "CPU")
)
VARIABLES = (_CUDA, _SM, _GFX, _ROCM, _CPU)
"""The environment variables of this project that state facts."""

_GFX_PATTERN = re.compile(r"gfx[1-9][0-9]?[0-9a-f]{2}")
_CPU_PATTERN = re.compile(r"(?:x86[-_]64[-_])?(v[1-4])")
_ARM_PATTERN = re.compile(r"(?:arm(?:v)?)?(8(?:\.[1-4])?)-?a")
_ARCHSPEC_PATTERN = re.compile(r"[a-z0-9_]{1,64}")


@dataclass(frozen=True)
class Assumed(Generic[T]):
    """A stated fact.

    Attributes:
        value: What is stated; none means that the machine has nothing of the kind.
        origin: The environment variable.
    """

    value: T | None
    origin: str


@dataclass(frozen=True)
class Assumptions:
    """All stated facts; none where the machine is looked at.

    Attributes:
        cuda: The CUDA version that the driver supports.
        sm: The compute capabilities of all devices.
        gfx: The targets of all AMD GPUs.
        rocm: The version of ROCm.
        cpu: The x86-64 level `v1` to `v4`, or the Arm version `8a` to `8.4a`.
        described: What was stated, with its origin, in words, for the record.
    """

    cuda: Assumed[CudaVersion] | None = None
    sm: Assumed[tuple[ComputeCapability, ...]] | None = None
    gfx: Assumed[tuple[str, ...]] | None = None
    rocm: Assumed[RocmVersion] | None = None
    cpu: Assumed[str] | None = None
    described: Mapping[str, str] = field(default_factory=dict)


NOTHING_ASSUMED = Assumptions()


@dataclass(frozen=True)
class _Variable(Generic[T]):
    """A variable that states a fact.

    Attributes:
        name: Of the variable.
        read: Returns the value, or none if the text is not accepted.
        accepted: The accepted form, in words.
        empty_is_absent: Whether an empty value states that there is nothing, or nothing at all.
    """

    name: str
    read: Callable[[str], T | None]
    accepted: str
    empty_is_absent: bool = False


def read_assumptions(environment: Mapping[str, str]) -> Assumptions:
    """Read the stated facts from the environment.

    The project's own variables come first; after them those of other tools that mean the same.

    Raises:
        SettingsError: A value has not the accepted form.
    """
    described: dict[str, str] = {}
    capabilities = "compute capabilities such as '9.0' or '8.0,9.0'"
    cuda_form, rocm_form = "a CUDA version such as '12.8'", "a ROCm version such as '6.3'"
    gfx_form = "targets such as 'gfx942' or 'gfx90a,gfx942'"
    cuda = _first(
        environment, described,
        _Variable(_CUDA, cuda_version, cuda_form, empty_is_absent=True),
        _Variable("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", cuda_version, cuda_form),
        _Variable("UV_CUDA_DRIVER_VERSION", _cuda_of_driver, "a driver's version: '550.54.15'"),
        _Variable("CONDA_OVERRIDE_CUDA", cuda_version, cuda_form, empty_is_absent=True),
    )  # fmt: skip
    sm = _first(
        environment, described,
        _Variable(_SM, _capabilities, capabilities, empty_is_absent=True),
        _Variable("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", _capabilities, capabilities),
        _Variable("CONDA_OVERRIDE_CUDA_ARCH", _capabilities, capabilities, empty_is_absent=True),
    )  # fmt: skip
    gfx = _first(
        environment, described,
        _Variable(_GFX, _targets, gfx_form, empty_is_absent=True),
        _Variable("AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", _targets, gfx_form),
        _Variable("UV_AMD_GPU_ARCHITECTURE", _targets, gfx_form),
    )  # fmt: skip
    rocm = _first(
        environment, described,
        _Variable(_ROCM, rocm_version, rocm_form, empty_is_absent=True),
        _Variable("AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", rocm_version, rocm_form),
    )  # fmt: skip
    cpu = _first(
        environment, described,
        _Variable(_CPU, _cpu_level, "'x86-64-v1' to 'x86-64-v4', or 'armv8-a' to 'armv8.4-a'",
                  empty_is_absent=True),
        _Variable("CONDA_OVERRIDE_ARCHSPEC", _archspec, "a name of archspec such as 'x86_64_v3'"),
    )  # fmt: skip
    if cpu is not None and cpu.value not in (None, *_LEVELS):
        # archspec also knows single CPUs by name, which say more than a level.
        described["assume-cpu"] = (
            f"{cpu.value!r} of {cpu.origin} is no level of x86-64 or Arm version and not used"
        )
        cpu = None
    return Assumptions(cuda, sm, gfx, rocm, cpu, described)


_LEVELS = ("v1", "v2", "v3", "v4", "8a", "8.1a", "8.2a", "8.3a", "8.4a")


def _first(
    environment: Mapping[str, str], described: dict[str, str], *variables: _Variable[T]
) -> Assumed[T] | None:
    """Return what the first variable that is set states."""
    for variable in variables:
        text = environment.get(variable.name)
        if text is None or (not text.strip() and not variable.empty_is_absent):
            continue
        value = variable.read(text.strip()) if text.strip() else None
        if text.strip() and value is None:
            raise SettingsError(
                f"environment variable {variable.name} is {text[:100]!r}; "
                f"accepted is {variable.accepted}"
                f"{', or nothing for none' if variable.empty_is_absent else ''}"
            )
        setting = variables[0].name.removeprefix("VARIANTWHEEL_").lower().replace("_", "-")
        note = "" if variable is variables[0] else f", taken for {variables[0].name}"
        described[setting] = (
            f"{text.strip() or 'none'} (environment variable {variable.name}{note})"
        )
        return Assumed(value, variable.name)
    return None


def _cuda_of_driver(text: str) -> CudaVersion | None:
    version = parse_driver_version(text)
    return None if version is None else cuda_of_driver(version)


def _capabilities(text: str) -> tuple[ComputeCapability, ...] | None:
    found = [compute_capability(part.strip()) for part in text.split(",")]
    known = {item for item in found if item is not None}
    return tuple(sorted(known)) if None not in found else None


def _targets(text: str) -> tuple[str, ...] | None:
    found = [part.strip() for part in text.split(",")]
    return tuple(sorted(set(found))) if all(map(_GFX_PATTERN.fullmatch, found)) else None


def _cpu_level(text: str) -> str | None:
    if match := _CPU_PATTERN.fullmatch(text):
        return match[1]
    match = _ARM_PATTERN.fullmatch(text)
    return f"{match[1]}a" if match else None


def _archspec(text: str) -> str | None:
    if text == "x86_64":
        return "v1"
    if text == "aarch64":
        return "8a"
    return _cpu_level(text) or (text if _ARCHSPEC_PATTERN.fullmatch(text) else None)
