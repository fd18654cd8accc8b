"""The PEP 517 hook that is called before a wheel is chosen: the metadata, the same for all wheels.

What is not imported here is time saved in every installation.
"""

from __future__ import annotations

import os

from variantwheel_selector.config_paths import nothing_is_stated
from variantwheel_selector.header_fields import header_values
from variantwheel_selector.project_name import escape_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    ConfigSettings = Mapping[str, object]


def prepare_metadata(metadata_directory: str, config_settings: ConfigSettings | None) -> str:
    """Write METADATA from the sdist's PKG-INFO and return the name of the `.dist-info` folder.

    Raises:
        ManifestError: There is no PKG-INFO that names the release.
        UnwritableError: There is no room or no permission for the folder.
    """
    try:
        metadata = _package_info()
    except OSError as error:
        raise _incomplete(f"cannot read PKG-INFO: {error.strerror}") from error
    project, version = _header(metadata, "Name"), _header(metadata, "Version")
    if not project or not version:
        missing = "Version" if project else "Name"
        raise _incomplete(f"PKG-INFO has no field {missing!r}")
    if not nothing_is_stated(config_settings, os.environ):
        from variantwheel_selector.settings import read_settings  # noqa: PLC0415 - rarely needed

        read_settings(config_settings, os.environ, project)
    name = f"{escape_project(project)}-{version}.dist-info"
    # Not with pathlib, whose import takes longer than all of this.
    folder = os.path.join(metadata_directory, name)  # noqa: PTH118
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        with open(f"{folder}/METADATA", "wb") as file:  # noqa: PTH123
            file.write(metadata)
    except OSError as error:
        from variantwheel_selector.errors import UnwritableError  # noqa: PLC0415 - rarely needed

        raise UnwritableError(
            f"cannot write METADATA into {folder!r}: {error.strerror or error};"
            " TMPDIR moves the folder with pip, UV_CACHE_DIR with uv"
        ) from error
    return name


def project_here() -> str | None:
    """Return the project of the sdist in the current folder; none if it does not say."""
    try:
        return _header(_package_info(), "Name")
    except OSError:
        return None


def _package_info() -> bytes:
    with open("PKG-INFO", "rb") as file:  # noqa: PTH123 - pathlib costs more than all of this
        return file.read()


def _header(metadata: bytes, field: str) -> str | None:
    return next(header_values(metadata, field), None)


def _incomplete(problem: str) -> Exception:
    from variantwheel_selector.errors import ManifestError  # noqa: PLC0415 - rarely needed

    return ManifestError(f"{problem}; this is no complete selector sdist")
