"""The PEP 517 hooks of a selector sdist; nothing is imported before a hook needs it.

Front ends call hooks in processes of their own, on modules that were never compiled before: what is
not imported is time saved in every installation. So most of what they do stands in `hooks`.
"""

# PEP 517 fixes the signatures (ARG001), and front ends call some hooks for nothing (PLC0415).
# ruff: noqa: ARG001, PLC0415

from __future__ import annotations

import os
import sys

from variantwheel_selector import bundle_finder
from variantwheel_selector.config_paths import nothing_is_stated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    ConfigSettings = Mapping[str, object]


class _Told:
    """Turns expected errors into lines for the user; any other error keeps its traceback."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            return
        from variantwheel_selector.errors import SelectorError

        if isinstance(error, SelectorError):
            for line in error.lines():
                sys.stderr.write(f"variantwheel-selector: error: {line}\n")
            sys.stderr.flush()
            raise SystemExit(1) from error


def get_requires_for_build_wheel(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return nothing, unless the project is going to be built from source."""
    if nothing_is_stated(config_settings, os.environ):
        return []  # source builds are off by default
    with _Told():
        # The hooks that follow read the settings too, in processes of their own.
        if bundle_finder is not None:
            bundle_finder.start_keeping()
        from variantwheel_selector import rare_hooks

        requirements = rare_hooks.wheel_requirements(config_settings)
        if bundle_finder is not None:
            bundle_finder.write_kept()
        return requirements


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Write the metadata, which is the same in all variants; looks at no hardware."""
    with _Told():
        from variantwheel_selector import hooks

        return hooks.prepare_metadata(metadata_directory, config_settings)


def build_wheel(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Write the wheel that fits this machine and return its file name."""
    with _Told():
        if nothing_is_stated(config_settings, os.environ, other_tools=True):
            from variantwheel_selector.prepared import hand_over_prepared

            name = hand_over_prepared(wheel_directory)
            if name is not None:
                return name
        from variantwheel_selector import wheel_hook

        return wheel_hook.make_wheel(wheel_directory, config_settings)


def get_requires_for_build_sdist(config_settings: ConfigSettings | None = None) -> list[str]:
    """Return nothing: an sdist is made of the files at hand."""
    return []


def build_sdist(sdist_directory: str, config_settings: ConfigSettings | None = None) -> str:
    """Pack the unpacked sdist again."""
    with _Told():
        from variantwheel_selector import rare_hooks

        return rare_hooks.make_sdist(sdist_directory)


def get_requires_for_build_editable(config_settings: ConfigSettings | None = None) -> list[str]:
    """Refuse: there is nothing to edit here."""
    with _Told():
        from variantwheel_selector import rare_hooks

        return rare_hooks.refuse_editable()


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: ConfigSettings | None = None
) -> str:
    """Refuse: there is nothing to edit here."""
    with _Told():
        from variantwheel_selector import rare_hooks

        return rare_hooks.refuse_editable()


def build_editable(
    wheel_directory: str,
    config_settings: ConfigSettings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Refuse: there is nothing to edit here."""
    with _Told():
        from variantwheel_selector import rare_hooks

        return rare_hooks.refuse_editable()
