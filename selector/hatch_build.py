"""Build hook of the wheel: puts the build environment's `packaging` into it.

Not with `VARIANTWHEEL_VENDOR_PACKAGING=never`: in conda `packaging` is a package of its own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCES = Path(__file__).resolve().parent / "src"


class VendorPackaging(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `variantwheel_selector/_vendor/packaging`; nothing third-party is in the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Copy `packaging` and tell the builder to include the copy.

        An editable installation uses the `packaging` that is installed beside it.
        """
        if not _vendors(version):
            return
        sys.path.insert(0, str(_SOURCES))
        try:
            # The package that is being built cannot be imported before the line above.
            from variantwheel_selector.package_copy import vendor_packaging  # noqa: PLC0415
        finally:
            sys.path.remove(str(_SOURCES))
        folder = Path(tempfile.mkdtemp(prefix="variantwheel-vendor-"))
        self._folder = folder
        for path in vendor_packaging(folder):
            inside = path.relative_to(folder).as_posix()
            build_data["force_include"][str(path)] = f"variantwheel_selector/_vendor/{inside}"

    def finalize(
        self,
        version: str,
        build_data: dict[str, Any],  # noqa: ARG002 - the interface's signature
        artifact_path: str,  # noqa: ARG002 - the interface's signature
    ) -> None:
        """Remove the copy."""
        if _vendors(version):
            shutil.rmtree(self._folder)


def _vendors(version: str) -> bool:
    return version != "editable" and os.environ.get("VARIANTWHEEL_VENDOR_PACKAGING") != "never"
