"""Where the user's installer takes packages from, as far as a build hook can see it.

What is given on the command line of pip or uv never reaches a hook; variables and configuration
files do. uv is recognised by a variable that it sets for hooks, everything else is taken for pip.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from variantwheel_selector.fetching.access import WebAccess
from variantwheel_selector.fetching.urls import Login
from variantwheel_selector.record import field, record, replace
from variantwheel_selector.setting_keys import INDEX_URL, WHEEL_DIR
from variantwheel_selector.settings import Settings


@record
class PackageSources:
    """Indexes and folders in the order in which they are asked, and how they are reached.

    Attributes:
        indexes: URLs, which may hold logins; the installer's built-in default is not among them.
        find_links: Folders, `file:` URLs and URLs of pages with links.
        no_index: Whether the user forbade indexes.
        offline: Whether the user forbade the network.
        cache: Whether files may be kept for later.
        keyring: Whether the program `keyring` may be asked for passwords.
        web: Proxy, certificates, patience.
        logins: By the URL of an index, where they do not stand in it.
        read: Configuration files that were read.
        unread: Configuration files that were not, each with the reason.
        looked_from: The folder that relative paths are seen from and that uv's project is looked
            for from; empty where it is not known.
        wheel_dir: A folder with wheels that were brought here; asked before everything else.
    """

    indexes: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    no_index: bool = False
    offline: bool = False
    cache: bool = True
    keyring: bool = False
    web: WebAccess = field(default_factory=WebAccess)
    logins: Mapping[str, Login] = field(default_factory=dict, repr=False)
    read: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    looked_from: str = ""
    wheel_dir: Path | None = None


def stated_sources(
    settings: Settings, environment: Mapping[str, str], installer_folder: str
) -> PackageSources:
    """Return what the user's settings state, and what the running installer is configured for.

    Args:
        settings: The user's.
        environment: Environment variables.
        installer_folder: The one that the installer runs in; empty where it is not known.
    """
    sources = configured_sources(environment, installer_folder)
    index, folder = settings.get(INDEX_URL), settings.get(WHEEL_DIR)
    if index is not None:
        sources = replace(sources, indexes=(index,), no_index=False)
    if folder is not None:
        sources = replace(sources, wheel_dir=Path(os.path.expanduser(folder)))  # noqa: PTH111
    return sources


def configured_sources(
    environment: Mapping[str, str], installer_folder: str = ""
) -> PackageSources:
    """Return what the running installer is configured for.

    Args:
        environment: Environment variables.
        installer_folder: The one that the installer runs in; empty where it is not known.
    """
    if "UV_INTERNAL__BUILD_DIR" in environment:
        from variantwheel_selector.fetching.uv_sources import uv_sources  # noqa: PLC0415 - one

        return uv_sources(environment, installer_folder)
    from variantwheel_selector.fetching.pip_sources import pip_sources  # noqa: PLC0415 - of two

    return pip_sources(environment, installer_folder)
