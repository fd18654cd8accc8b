"""What the variables of pip and uv say about where packages come from, for commands that mend.

A build hook sees neither the command line nor, without reading them, the configuration files; the
files count again in the next command by themselves.
"""

from __future__ import annotations

from variantwheel_selector.installer_folder import from_folder, pip_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PIP = {
    "PIP_INDEX_URL": "--index-url",
    "PIP_EXTRA_INDEX_URL": "--extra-index-url",
    "PIP_FIND_LINKS": "--find-links",
}
_UV = {
    "UV_INDEX_URL": "--index-url",
    "UV_DEFAULT_INDEX": "--index-url",
    "UV_EXTRA_INDEX_URL": "--extra-index-url",
    "UV_INDEX": "--extra-index-url",
    "UV_FIND_LINKS": "--find-links",
}
_NO_INDEX = ("PIP_NO_INDEX", "UV_NO_INDEX")
VARIABLES = (*_PIP, *_UV, *_NO_INDEX)
"""Where none of these is set, there are no options."""
_TRUE = ("1", "true", "yes", "on", "y", "t")


def is_uv(environment: Mapping[str, str]) -> bool:
    """Tell whether uv calls the hook; it sets this variable for hooks."""
    return "UV_INTERNAL__BUILD_DIR" in environment


def index_options(environment: Mapping[str, str], folder: str = "") -> tuple[str, ...]:
    """Return where the installer that calls takes packages from, in options that pip and uv share.

    Logins are left out: they belong into a keyring or a netrc file.

    Args:
        environment: Environment variables.
        folder: The one that the installer runs in, from which relative paths are seen; empty where
            it is not known.
    """
    uv = is_uv(environment)
    found: list[str] = []
    for variable, option in (_UV if uv else _PIP).items():
        text = environment.get(variable, "")
        # uv separates folders by commas, and indexes may have a name before them.
        for item in (text.replace(",", " ") if variable == "UV_FIND_LINKS" else text).split():
            url = item.partition("=")[2] if uv and "=" in item.partition("://")[0] else item
            # The next command may be given anywhere.
            url = from_folder(url, folder) if uv else pip_path(url, environment, folder)
            if "\n" not in url and [option, url] not in _pairs(found):
                from variantwheel_selector.redaction import (  # noqa: PLC0415 - rarely needed
                    without_credentials,
                )

                found += [option, without_credentials(url)]
    flag = environment.get(_NO_INDEX[uv], "")
    if flag.strip().lower() in _TRUE:
        found.append("--no-index")
    return tuple(found)


def _pairs(options: list[str]) -> list[list[str]]:
    return [options[place : place + 2] for place in range(0, len(options), 2)]
