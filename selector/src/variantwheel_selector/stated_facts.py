"""Readers of facts that a user states about a machine, in the spellings of this and other tools."""

from __future__ import annotations

import re

from variantwheel_selector.cpu_levels import ARM_VERSIONS, X86_LEVELS
from variantwheel_selector.parse.compute_cap import ComputeCapability, compute_capability
from variantwheel_selector.parse.nvidia_version import (
    CudaVersion,
    cuda_of_driver,
    parse_driver_version,
)
from variantwheel_selector.variant_pattern import VariantPattern, read_patterns

_GFX_PATTERN = r"gfx[1-9][0-9]?[0-9a-f]{2}(:sramecc[+-])?(:xnack[+-])?"
_CPU_PATTERN = r"(?:x86[-_]64[-_])?(v[1-4])"
_ARM_PATTERN = r"(?:arm(?:v)?)?([89](?:\.[0-9])?)-?a"
_LIBC_PATTERN = r"(glibc|musl)[ -]?([0-9]{1,2}\.[0-9]{1,3})"
_BRANCH_PATTERN = r"[1-9][0-9]{2,3}"
_VERSION_PATTERN = r"[0-9]{1,2}\.[0-9]{1,3}"
_CUDA_BACKEND = r"cu([1-9][0-9]?)[0-9]"
_ROCM_BACKEND = r"rocm[0-9](?:\.[0-9]){0,2}"


def cuda_of_driver_text(text: str) -> CudaVersion | None:
    """Return the CUDA version that a driver such as `550.54.15`, or its branch `550`, brings."""
    branch = re.fullmatch(_BRANCH_PATTERN, text)
    version = text if branch else parse_driver_version(text)
    return None if version is None else cuda_of_driver(version)


def capabilities(text: str) -> tuple[ComputeCapability, ...] | None:
    """Read compute capabilities such as `8.0,9.0`."""
    found = [compute_capability(part.strip()) for part in text.split(",")]
    known = {item for item in found if item is not None}
    return tuple(sorted(known)) if None not in found else None


def gfx_targets(text: str) -> tuple[str, ...] | None:
    """Read AMD's target IDs such as `gfx90a,gfx942:sramecc+:xnack-`."""
    found = [part.strip() for part in text.split(",")]
    return (
        tuple(sorted(set(found)))
        if all(re.fullmatch(_GFX_PATTERN, item) for item in found)
        else None
    )


def cpu_level(text: str) -> str | None:
    """Read `x86-64-v3` as `v3`, and `armv8.2-a` as `8.2a`."""
    if match := re.fullmatch(_CPU_PATTERN, text):
        return match[1]
    match = re.fullmatch(_ARM_PATTERN, text)
    version = f"{match[1]}a" if match else ""
    return version if version in ARM_VERSIONS else None


def cpu_levels(text: str) -> tuple[str, ...] | None:
    """Read one level for each architecture, at most."""
    found = [cpu_level(part.strip()) for part in text.split(",")]
    known = tuple(item for item in found if item is not None)
    families = [item in X86_LEVELS for item in known]
    return known if len(known) == len(found) and len(set(families)) == len(families) else None


def archspec(text: str) -> str | None:
    """Read a level as archspec names it; none for a single CPU."""
    return {"x86_64": "v1", "aarch64": "8a", "armv9.0a": "9a"}.get(text) or cpu_level(text)


def libc(text: str) -> str | None:
    """Read `glibc 2.28` or `musl 1.2`."""
    match = re.fullmatch(_LIBC_PATTERN, text)
    return f"{match[1]} {match[2]}" if match else None


def glibc_of_conda(text: str) -> str | None:
    """Read glibc's bare version."""
    return f"glibc {text}" if re.fullmatch(_VERSION_PATTERN, text) else None


def patterns_of_torch_backend(text: str) -> tuple[VariantPattern, ...] | None:
    """Return what goes together with a build of PyTorch that uv was asked for."""
    if text == "cpu":
        return read_patterns("cpu")
    if match := re.fullmatch(_CUDA_BACKEND, text):
        return read_patterns(f"nvidia::cuda_version_lower_bound::{match[1]}.*")
    return read_patterns("amd") if re.fullmatch(_ROCM_BACKEND, text) else None
