"""The PEP 517 hooks that few installations call: for source builds, sdists and editable ones."""

from __future__ import annotations

import os

from variantwheel_selector.errors import EditableRefusedError
from variantwheel_selector.hooks import project_here
from variantwheel_selector.settings import read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    ConfigSettings = Mapping[str, object]


def wheel_requirements(config_settings: ConfigSettings | None) -> list[str]:
    """Return the requirements of a source build if there is going to be one."""
    settings = read_settings(config_settings, os.environ, project_here())
    if settings.source_build == "never":
        return []
    from variantwheel_selector.wheel_hook import source_requirements  # noqa: PLC0415 - rare

    return source_requirements(settings)


def make_sdist(sdist_directory: str) -> str:
    """Pack the unpacked sdist in the current folder and return the archive's name."""
    from pathlib import Path  # noqa: PLC0415 - the other hooks pack no sdist

    from variantwheel_selector.manifest import parse_manifest  # noqa: PLC0415 - as above
    from variantwheel_selector.sdist import pack_sdist  # noqa: PLC0415 - as above
    from variantwheel_selector.wheel_hook import read_manifest  # noqa: PLC0415 - as above

    return pack_sdist(Path(), parse_manifest(read_manifest()), Path(sdist_directory))


def refuse_editable() -> NoReturn:
    """Refuse an editable installation."""
    raise EditableRefusedError(
        "an editable installation is not possible: this sdist holds finished wheels\n"
        "install it without -e, or make an editable installation of the project's own checkout"
    )
