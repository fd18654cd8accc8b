"""The PEP 517 hooks of a selector sdist; nothing is imported before a hook needs it."""

# PEP 517 fixes the signatures (ARG001), and front ends call some hooks for nothing (PLC0415).
# ruff: noqa: ARG001, PLC0415

from __future__ import annotations

import functools
import sys

from variantwheel_selector.errors import SelectorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Front ends start a process for each hook: `typing` is a good part of its time.
    from collections.abc import Callable, Mapping
    from typing import ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _R = TypeVar("_R")

    ConfigSettings = Mapping[str, object]


def _hook(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn expected errors into lines for the user; any other error keeps its traceback."""

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except SelectorError as error:
            for line in str(error).splitlines():
                sys.stderr.write(f"variantwheel-selector: error: {line}\n")
            sys.stderr.flush()
            raise SystemExit(1) from error

    return wrapper


@_hook
def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return nothing, unless the project is going to be built from source."""
    import os

    from variantwheel_selector.config_paths import nothing_is_stated

    if nothing_is_stated(config_settings, os.environ):
        return []  # source builds are off by default
    from variantwheel_selector import hooks

    return hooks.wheel_requirements(config_settings)


@_hook
def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the metadata, which is the same in all variants; looks at no hardware."""
    from variantwheel_selector import hooks

    return hooks.prepare_metadata(metadata_directory, config_settings)


@_hook
def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the wheel that fits this machine and return its file name."""
    from variantwheel_selector import wheel_hook

    return wheel_hook.make_wheel(wheel_directory, config_settings)


@_hook
def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return nothing: an sdist is made of the files at hand."""
    return []


@_hook
def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Pack the unpacked sdist again."""
    from variantwheel_selector import hooks

    return hooks.make_sdist(sdist_directory)


@_hook
def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """Refuse: there is nothing to edit here."""
    from variantwheel_selector import hooks

    return hooks.refuse_editable()


@_hook
def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Refuse: there is nothing to edit here."""
    from variantwheel_selector import hooks

    return hooks.refuse_editable()


@_hook
def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Refuse: there is nothing to edit here."""
    from variantwheel_selector import hooks

    return hooks.refuse_editable()
