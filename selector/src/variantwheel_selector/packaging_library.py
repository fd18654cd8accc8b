"""The one door to `packaging`: the vendored copy, or the installed one in a source checkout.

Each part is imported when it is first asked for; a hook that needs tags does not pay for versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging import specifiers, tags, version
else:
    import importlib

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return importlib.import_module(f"{__package__}._vendor.packaging.{name}")
        except ModuleNotFoundError as error:
            # Only a missing copy may be replaced; a copy with a missing part is a broken one.
            if error.name != f"{__package__}._vendor.packaging":
                raise
            return importlib.import_module(f"packaging.{name}")


__all__ = ["specifiers", "tags", "version"]
