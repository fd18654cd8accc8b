"""The one door to `packaging`: the vendored copy, or the installed one in a source checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging import specifiers, tags, version
else:
    try:
        from variantwheel_selector._vendor.packaging import specifiers, tags, version
    except ModuleNotFoundError as error:
        # Only a missing copy may be replaced; a copy with a missing part is a broken installation.
        if error.name != "variantwheel_selector._vendor.packaging":
            raise
        from packaging import specifiers, tags, version

__all__ = ["specifiers", "tags", "version"]
