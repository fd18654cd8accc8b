"""The folder that the installer which calls a hook runs in, and paths as seen from there.

A hook itself runs inside the sdist. Every installer starts the hook's process itself, so that it is
the parent; `PWD` is what some shell before it said, which options such as uv's `--directory`, and
programs that start the installer elsewhere, do not change.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NO_FOLDER = "the path is relative, and where the installer runs is not known"
"""Why a file of settings is not read: in the hook's own folder lies the sdist of a stranger."""


def installer_folder(environment: Mapping[str, str]) -> str:
    """Return the folder that the parent process runs in; empty where it is not known.

    Args:
        environment: Its `PWD` counts where the system does not tell, as on macOS.
    """
    try:
        folder = os.readlink(f"/proc/{os.getppid()}/cwd")  # noqa: PTH115 - pathlib takes time
    except OSError:
        folder = environment.get("PWD", "")
    # A folder that was removed has a name that leads nowhere.
    return folder if os.path.isabs(folder) and os.path.isdir(folder) else ""  # noqa: PTH112, PTH117


def own_folder() -> str:
    """Return the folder that this process runs in; empty where it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib takes time
    except OSError:
        return ""


def from_folder(link: str, folder: str) -> str:
    """Return a path as seen from a folder; URLs and absolute paths stay, and so do all without one.

    >>> from_folder("./wheels", "/home/me"), from_folder("https://host/x", "/home/me")
    ('/home/me/wheels', 'https://host/x')
    """
    if not link or not folder or "://" in link or link.startswith("file:"):
        return link
    return os.path.join(folder, link.removeprefix("./"))  # noqa: PTH118 - pathlib takes time


def pip_path(link: str, environment: Mapping[str, str], folder: str) -> str:
    """Return a path as pip sees it, for which `~` is the home; URLs stay."""
    home = environment.get("HOME")
    if home and link.startswith("~/"):
        link = home + link[1:]
    return from_folder(link, folder)
