"""The settings that there are, each declared once: its name, what it accepts, how it is read.

A setting has one name, `source-build` for example, in every place: as a config setting, as the
environment variable VARIANTWHEEL_SOURCE_BUILD, and as a key of a configuration file. Facts that are
stated stand in a file's table `assume`: `assume-cuda` is `cuda` there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from variantwheel_selector import stated_facts as facts
from variantwheel_selector.model import LABEL_PATTERN
from variantwheel_selector.parse.compute_cap import ComputeCapability
from variantwheel_selector.parse.nvidia_version import CudaVersion, cuda_version
from variantwheel_selector.parse.rocm_version import RocmVersion, rocm_version
from variantwheel_selector.record import record
from variantwheel_selector.redaction import is_ambiguous, without_credentials
from variantwheel_selector.typing_forms import Generic, TypeVar
from variantwheel_selector.variant_pattern import VariantPattern, read_patterns

T = TypeVar("T")

ENVIRONMENT_PREFIX = "VARIANTWHEEL_"
ASSUME_PREFIX = "assume-"

_INDEX_PATTERN = r"(?:https?|file)://\S+"
_DRIVE_PATTERN = r"[A-Za-z]:[/\\]"


@record
class Alias(Generic[T]):
    """A variable of another tool that means the same; it counts when nothing else is stated.

    Attributes:
        variable: Its name.
        read: Returns the value, or none if the text is not accepted.
        accepted: The accepted form, in words.
        empty_is_value: Whether an empty variable states that there is nothing of the kind.
        passed_over: What texts that the other tool accepts but that state nothing here look like.
    """

    variable: str
    read: Callable[[str], T | None]
    accepted: str
    empty_is_value: bool = False
    passed_over: str = ""


@record
class Key(Generic[T]):
    """A setting.

    Attributes:
        name: As a config setting.
        read: Returns the value, or none if the text is not accepted. The items of a list come
            joined by `separator`.
        accepted: The accepted form, in words.
        separator: Between the items of a list; none if the setting is no list.
        choices: All accepted texts, if they are few; used for suggestions.
        empty_is_value: Whether an empty text is a value, which is read as none: a stated fact that
            there is nothing of the kind. Otherwise an empty text means that it is not set.
        per_project: Whether it belongs into a file's table `project.NAME`, since it makes sense for
            one project alone.
        aliases: Variables of other tools, the most important first.
        shown: Returns the text as it may be recorded and printed, without credentials.
    """

    name: str
    read: Callable[[str], T | None]
    accepted: str
    separator: str | None = None
    choices: tuple[str, ...] = ()
    empty_is_value: bool = False
    per_project: bool = False
    aliases: tuple[Alias[T], ...] = ()
    shown: Callable[[str], str] = str

    @property
    def variable(self) -> str:
        """The environment variable, such as `VARIANTWHEEL_SOURCE_BUILD`."""
        return environment_name(self.name)


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting, such as `VARIANTWHEEL_SOURCE_BUILD`."""
    return ENVIRONMENT_PREFIX + setting.upper().replace("-", "_")


def choice(name: str, *choices: str) -> Key[str]:
    """Return a setting with few accepted texts, the default first."""
    return Key(
        name,
        lambda text: text if text in choices else None,
        ", ".join(choices),
        choices=choices,
    )


def _label(text: str) -> str | None:
    return text if re.fullmatch(LABEL_PATTERN, text.removesuffix("!")) else None


def _paths(text: str) -> tuple[str, ...] | None:
    paths = tuple(path for path in text.split(":") if path)
    return paths or None


def _patterns(name: str) -> Key[tuple[VariantPattern, ...]]:
    return Key(
        name,
        read_patterns,
        "a list of 'gpu', 'cpu', 'cpu::v4', labels, namespaces such as 'nvidia', and properties "
        "such as 'nvidia::sm_arch::90_real'",
        separator=",",
    )


VARIANT: Key[str] = Key(
    "variant",
    _label,
    f"a variant label, which matches {LABEL_PATTERN}; '!' at the end forces one",
    per_project=True,
)
SOURCE_BUILD = choice("source-build", "never", "allow", "force")
PROFILE: Key[tuple[str, ...]] = Key(
    "profile",
    _paths,
    "paths of machine profiles, which 'variantwheel capture' writes, with ':' between them",
    separator=":",
)
MAX_CPU_LEVEL: Key[tuple[str, ...]] = Key(
    "max-cpu-level",
    facts.cpu_levels,
    "'x86-64-v1' to 'x86-64-v4', 'armv8-a' to 'armv9.2-a', or one of each with ',' between them",
    separator=",",
)
REQUIRE = _patterns("require")
FORBID = _patterns("forbid")
ONLY = _patterns("only")
PREFER = Key(
    "prefer",
    read_patterns,
    REQUIRE.accepted,
    separator=",",
    aliases=(
        Alias(
            "UV_TORCH_BACKEND",
            facts.patterns_of_torch_backend,
            "'cpu', or such as 'cu128' or 'rocm6.3'",
            passed_over=r"auto|xpu",
        ),
    ),
)
ON_UNKNOWN = choice("on-unknown", "fallback", "error")
ON_FALLBACK = choice("on-fallback", "accept", "error")
NARROWING = frozenset(key.name for key in (REQUIRE, FORBID, ONLY, PREFER, ON_UNKNOWN, ON_FALLBACK))
"""The names of those that `narrowing.py` acts upon."""
LOG = choice("log", "short", "full")

INDEX_URL: Key[str] = Key(
    "index-url",
    lambda text: text if re.fullmatch(_INDEX_PATTERN, text) and not is_ambiguous(text) else None,
    "the URL of an index, http, https or file, to fetch wheels from instead of the installer's; "
    "in a login '/', '?' and '#' are written %2F, %3F and %23",
    shown=without_credentials,
)
WHEEL_DIR: Key[str] = Key(
    "wheel-dir",
    lambda text: text if text.startswith(("/", "~")) or re.match(_DRIVE_PATTERN, text) else None,
    "the absolute path of a folder with wheels that were brought here",
)

_CUDA_FORM, _ROCM_FORM = "a CUDA version such as '12.8'", "a ROCm version such as '6.3'"
_SM_FORM = "compute capabilities such as '9.0' or '8.0,9.0'"
_GFX_FORM = "targets such as 'gfx942', 'gfx90a,gfx942' or 'gfx90a:sramecc+:xnack-'"
ASSUME_CUDA: Key[CudaVersion] = Key(
    "assume-cuda",
    cuda_version,
    _CUDA_FORM,
    empty_is_value=True,
    aliases=(
        Alias("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", cuda_version, _CUDA_FORM),
        Alias("UV_CUDA_DRIVER_VERSION", facts.cuda_of_driver_text, "a driver's version: '550.54'"),
        Alias("CONDA_OVERRIDE_CUDA", cuda_version, _CUDA_FORM, empty_is_value=True),
    ),
)
ASSUME_SM: Key[tuple[ComputeCapability, ...]] = Key(
    "assume-sm",
    facts.capabilities,
    _SM_FORM,
    separator=",",
    empty_is_value=True,
    aliases=(
        Alias("NV_VARIANT_PROVIDER_FORCE_SM_ARCH", facts.capabilities, _SM_FORM),
        Alias("CONDA_OVERRIDE_CUDA_ARCH", facts.capabilities, _SM_FORM, empty_is_value=True),
    ),
)
ASSUME_GFX: Key[tuple[str, ...]] = Key(
    "assume-gfx",
    facts.gfx_targets,
    _GFX_FORM,
    separator=",",
    empty_is_value=True,
    aliases=(
        Alias("AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", facts.gfx_targets, _GFX_FORM),
        Alias("UV_AMD_GPU_ARCHITECTURE", facts.gfx_targets, _GFX_FORM),
    ),
)
ASSUME_ROCM: Key[RocmVersion] = Key(
    "assume-rocm",
    rocm_version,
    _ROCM_FORM,
    empty_is_value=True,
    aliases=(Alias("AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION", rocm_version, _ROCM_FORM),),
)
ASSUME_CPU: Key[str] = Key(
    "assume-cpu",
    facts.cpu_level,
    "'x86-64-v1' to 'x86-64-v4', or 'armv8-a' to 'armv9.2-a'",
    empty_is_value=True,
    aliases=(
        Alias(
            "CONDA_OVERRIDE_ARCHSPEC",
            facts.archspec,
            "a CPU level such as 'x86_64_v3'; names of single CPUs are not used",
            passed_over=r"[A-Za-z0-9_.+]{1,64}",  # names of single CPUs say more than a level
        ),
    ),
)
ASSUME_LIBC: Key[str] = Key(
    "assume-libc",
    facts.libc,
    "'glibc 2.28' or 'musl 1.2'",
    aliases=(Alias("CONDA_OVERRIDE_GLIBC", facts.glibc_of_conda, "glibc's version: '2.28'"),),
)

KEYS: tuple[Key[object], ...] = tuple(
    key  # type: ignore[misc]  # of various types, which `Settings.get` restores
    for key in (
        VARIANT, SOURCE_BUILD, PROFILE, MAX_CPU_LEVEL, REQUIRE, FORBID, ONLY, PREFER,
        ON_UNKNOWN, ON_FALLBACK, LOG, INDEX_URL, WHEEL_DIR,
        ASSUME_CUDA, ASSUME_SM, ASSUME_GFX, ASSUME_ROCM, ASSUME_CPU, ASSUME_LIBC,
    )
)  # fmt: skip
"""Every setting; what is not here is unknown, in every place."""

BY_NAME: Mapping[str, Key[object]] = {key.name: key for key in KEYS}
