"""pip's settings of where packages come from: its configuration files, then `PIP_*` variables.

Source: pip's documentation, "Configuration"; each setting replaces the one of a file before it. A
command's section of any file counts more than the general one of all files. Relative paths are
those of the folder that pip runs in, whichever file they stand in.
"""

from __future__ import annotations

import configparser
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from variantwheel_selector.fetching.access import WebAccess, read_retries, read_seconds
from variantwheel_selector.fetching.sources import PackageSources
from variantwheel_selector.installer_folder import NO_FOLDER, from_folder, pip_path

# Later sections win. `download` and `wheel` call the same hook, but which one it was stays unknown.
_SECTIONS = ("global", "install")
_TRUE = ("1", "true", "yes", "on", "y", "t")


def pip_sources(environment: Mapping[str, str], folder: str = "") -> PackageSources:
    """Return what pip is configured for.

    Args:
        environment: Environment variables.
        folder: The one that pip runs in; empty where it is not known.
    """
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    read: list[str] = []
    unread: dict[str, str] = {}
    stated = from_folder(environment.get("PIP_CONFIG_FILE", ""), folder)
    for path in configuration_files(environment, folder):
        if not path.is_absolute():
            unread[str(path)] = NO_FOLDER
            continue
        try:
            found = _read(path)
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
            if not absent or str(path) == stated:
                unread[str(path)] = getattr(error, "strerror", None) or type(error).__name__
            continue
        for section, members in found.items():
            sections[section] |= members
        read.append(str(path))
    settings = {name: value for members in sections.values() for name, value in members.items()}
    for name, value in environment.items():
        # An empty variable counts as not set, as in pip.
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    indexes = [
        from_folder(url, folder)
        for name in ("index-url", "extra-index-url")
        for url in _words(settings, name)
    ]
    no_index = _flag(settings, "no-index")
    keyring = settings.get("keyring-provider", "auto")
    default_timeout = settings.get("default-timeout", "")
    # The two variables win over pip's own setting, because requests reads them.
    certificate = (
        environment.get("REQUESTS_CA_BUNDLE")
        or environment.get("CURL_CA_BUNDLE")
        or settings.get("cert")
        or environment.get("SSL_CERT_FILE")
        or ""
    )
    return PackageSources(
        indexes=() if no_index else tuple(dict.fromkeys(indexes)),
        find_links=tuple(
            dict.fromkeys(
                pip_path(link, environment, folder) for link in _words(settings, "find-links")
            )
        ),
        no_index=no_index,
        cache=not _flag(settings, "no-cache-dir"),
        keyring=keyring in ("subprocess", "auto"),
        web=WebAccess(
            certificate=from_folder(certificate, folder) or None,
            client_certificate=from_folder(settings.get("client-cert", ""), folder) or None,
            proxy=settings.get("proxy"),
            trusted_hosts=tuple(_words(settings, "trusted-host")),
            timeout=read_seconds(settings.get("timeout", ""), read_seconds(default_timeout, 15.0)),
            retries=read_retries(settings.get("retries", ""), 5),
        ),
        read=tuple(read),
        unread=unread,
        looked_from=folder,
    )


def configuration_files(environment: Mapping[str, str], folder: str = "") -> list[Path]:
    """Return where pip looks for configuration, what wins last.

    Args:
        environment: Environment variables.
        folder: The one that pip runs in; where it is not known, paths may be relative.
    """
    named = environment.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    stated = Path(from_folder(named, folder)) if named else None
    replaced = stated is not None and stated.is_absolute() and stated.exists()
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    files: list[Path] = []
    if sys.platform == "win32":
        files += [Path(environment.get("PROGRAMDATA", "C:/ProgramData"), "pip", name)]
        user = [] if replaced else [environment.get("APPDATA")]
        files += [Path(item, "pip", name) for item in user if item]
    else:
        folders = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        if sys.platform == "darwin":
            folders = "/Library/Application Support"
        files += [
            Path(from_folder(item, folder), "pip", name)
            for item in reversed(folders.split(":"))
            if item
        ]
        files.append(Path("/etc", name))
        # pip leaves the user's own files out where the variable names another one.
        home = environment.get("HOME")
        if home and not replaced:
            home = from_folder(home, folder)
            files.append(Path(home, ".pip", name))
            files.append(Path(from_folder(_user_folder(environment, home), folder), "pip", name))
    files.append(Path(sys.prefix, name))
    if stated is not None:
        files.append(stated)
    return files


def _user_folder(environment: Mapping[str, str], home: str) -> str:
    of_macos = f"{home}/Library/Application Support"
    if sys.platform == "darwin" and Path(of_macos, "pip").is_dir():
        return of_macos
    return environment.get("XDG_CONFIG_HOME") or f"{home}/.config"


def _read(path: Path) -> dict[str, dict[str, str]]:
    """Return the settings of each section that counts."""
    parser = configparser.RawConfigParser()
    with path.open(encoding="utf-8") as file:
        parser.read_file(file)
    return {
        section: {
            name.lower().replace("_", "-").removeprefix("--"): value
            for name, value in parser.items(section)
        }
        for section in _SECTIONS
        if parser.has_section(section)
    }


def _words(settings: Mapping[str, str], name: str) -> list[str]:
    text = settings.get(name, "")
    if "'" not in text and '"' not in text:
        return text.split()
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _flag(settings: Mapping[str, str], name: str) -> bool:
    return settings.get(name, "").lower() in _TRUE
