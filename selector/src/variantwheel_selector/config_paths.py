"""Where configuration files are, and whether anything is stated at all; imports next to nothing.

Front ends call three hooks in three processes. Two of them need settings only to refuse wrong ones;
where there are none, nothing has to be read for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_VARIABLE = "VARIANTWHEEL_CONFIG"
"""Names one file, absolute, that is read instead of the usual ones; `/dev/null` is none."""

OTHER_TOOLS = frozenset({
    "AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH", "AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION",
    "CONDA_OVERRIDE_ARCHSPEC", "CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH",
    "CONDA_OVERRIDE_GLIBC", "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION",
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH", "UV_AMD_GPU_ARCHITECTURE", "UV_CUDA_DRIVER_VERSION",
    "UV_TORCH_BACKEND",
})  # fmt: skip
"""Variables of other tools that may state something; `setting_keys` says what each means."""

_PREFIX = "VARIANTWHEEL_"
_FILE = "variantwheel/config.toml"


def user_files(environment: Mapping[str, str]) -> list[str]:
    """Return where the user's file would be."""
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    return [f"{folder}/{_FILE}"] if os.path.isabs(folder) else []  # noqa: PTH117 - cheaper


def site_files(environment: Mapping[str, str]) -> list[str]:
    """Return where the site's files would be, the most important first."""
    folders = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    return [f"{item}/{_FILE}" for item in folders if os.path.isabs(item)]  # noqa: PTH117


def nothing_is_stated(
    config_settings: Mapping[str, object] | None,
    environment: Mapping[str, str],
    *,
    other_tools: bool = False,
) -> bool:
    """Tell whether no config setting, no variable of this project and no file says anything.

    Args:
        config_settings: Of the PEP 517 hook.
        environment: Environment variables; they also tell where the files are.
        other_tools: Whether variables of other tools must say nothing either.
    """
    return (
        not config_settings
        and not (other_tools and not OTHER_TOOLS.isdisjoint(environment))
        and not any(name.startswith(_PREFIX) for name in environment)
        and not any(
            os.path.lexists(path) for path in (*user_files(environment), *site_files(environment))
        )
    )
