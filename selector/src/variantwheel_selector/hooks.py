"""The PEP 517 hooks that look at no wheel, and what all hooks need of the unpacked sdist.

A front end calls them in processes of their own, on modules that were never compiled before; what
is not imported here is time saved in every installation.
"""

from __future__ import annotations

import os

from variantwheel_selector.config_paths import nothing_is_stated
from variantwheel_selector.errors import EditableRefusedError, ManifestError
from variantwheel_selector.header_fields import header_values
from variantwheel_selector.project_name import escape_project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    ConfigSettings = Mapping[str, object]


def wheel_requirements(config_settings: ConfigSettings | None) -> list[str]:
    """Return the requirements of a source build if there is going to be one."""
    from variantwheel_selector.settings import read_settings  # noqa: PLC0415 - rarely needed

    settings = read_settings(config_settings, os.environ, project_here())
    if settings.source_build == "never":
        return []
    from variantwheel_selector.wheel_hook import source_requirements  # noqa: PLC0415 - rare

    return source_requirements(settings)


def prepare_metadata(metadata_directory: str, config_settings: ConfigSettings | None) -> str:
    """Write METADATA from the sdist's PKG-INFO and return the name of the `.dist-info` folder.

    Raises:
        ManifestError: There is no PKG-INFO that names the release.
    """
    try:
        metadata = _package_info()
    except OSError as error:
        raise ManifestError(
            f"cannot read PKG-INFO: {error.strerror}; this is no complete selector sdist"
        ) from error
    project, version = _header(metadata, "Name"), _header(metadata, "Version")
    if not nothing_is_stated(config_settings, os.environ):
        from variantwheel_selector.settings import read_settings  # noqa: PLC0415 - rarely needed

        read_settings(config_settings, os.environ, project)
    name = f"{escape_project(project)}-{version}.dist-info"
    # Not with pathlib, whose import takes longer than all of this.
    folder = os.path.join(metadata_directory, name)  # noqa: PTH118
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    with open(f"{folder}/METADATA", "wb") as file:  # noqa: PTH123
        file.write(metadata)
    return name


def project_here() -> str | None:
    """Return the project of the sdist in the current folder; none if it does not say."""
    try:
        return _header(_package_info(), "Name")
    except (OSError, ManifestError):
        return None


def make_sdist(sdist_directory: str) -> str:
    """Pack the unpacked sdist in the current folder and return the archive's name."""
    from pathlib import Path  # noqa: PLC0415 - rarely needed

    from variantwheel_selector.sdist import pack_sdist  # noqa: PLC0415 - rarely needed
    from variantwheel_selector.wheel_hook import read_manifest  # noqa: PLC0415 - rarely needed

    return pack_sdist(Path(), read_manifest(Path()), Path(sdist_directory))


def refuse_editable() -> NoReturn:
    """Refuse an editable installation."""
    raise EditableRefusedError(
        "an editable installation is not possible: this sdist holds finished wheels\n"
        "install it without -e, or make an editable installation of the project's own checkout"
    )


def _package_info() -> bytes:
    with open("PKG-INFO", "rb") as file:  # noqa: PTH123 - pathlib costs more than all of this
        return file.read()


def _header(metadata: bytes, field: str) -> str:
    for value in header_values(metadata, field):
        return value
    raise ManifestError(f"PKG-INFO has no field {field!r}; this is no complete selector sdist")
