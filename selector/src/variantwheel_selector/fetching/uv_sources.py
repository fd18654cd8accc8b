"""uv's settings of where packages come from: variables, then files of project, user and system.

Source: uv's documentation, "Configuration files" and "Package indexes". Relative paths are those of
the file that they stand in; in variables, those of the folder that uv runs in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from variantwheel_selector.fetching.access import WebAccess, read_retries, read_seconds
from variantwheel_selector.fetching.sources import PackageSources
from variantwheel_selector.fetching.urls import Login
from variantwheel_selector.fetching.uv_files import (
    UvFiles,
    is_set,
    project_folder,
    read_uv_files,
    setting,
)
from variantwheel_selector.installer_folder import from_folder
from variantwheel_selector.record import record


@record
class _Index:
    url: str
    name: str = ""
    default: bool = False
    flat: bool = False


def uv_sources(environment: Mapping[str, str], folder: str = "") -> PackageSources:
    """Return what uv is configured for.

    Args:
        environment: Environment variables.
        folder: The one that uv runs in; empty where it is not known.
    """
    found = read_uv_files(environment, folder)
    indexes = [*_variable_indexes(environment, folder), *_file_indexes(found)]
    extra = [from_folder(i, folder) for i in environment.get("UV_EXTRA_INDEX_URL", "").split()]
    extra += found.paths("extra-index-url")
    default = next((index.url for index in indexes if index.default), None)
    default = default or from_folder(environment.get("UV_INDEX_URL", ""), folder)
    default = default or next(iter(found.paths("index-url")), None)
    urls = [index.url for index in indexes if not index.default and not index.flat]
    links = [from_folder(i, folder) for i in environment.get("UV_FIND_LINKS", "").split(",") if i]
    links += found.paths("find-links")
    certificate = environment.get("SSL_CERT_FILE") or environment.get("SSL_CERT_DIR") or ""
    no_index = is_set(environment, "UV_NO_INDEX") or found.flag("no-index")
    keyring = environment.get("UV_KEYRING_PROVIDER") or next(
        iter(found.texts("keyring-provider")), "disabled"
    )
    return PackageSources(
        indexes=()
        if no_index
        else tuple(dict.fromkeys([*urls, *extra, *([default] if default else [])])),
        find_links=tuple(dict.fromkeys([*links, *(index.url for index in indexes if index.flat)])),
        no_index=no_index,
        offline=is_set(environment, "UV_OFFLINE") or found.flag("offline"),
        cache=not (is_set(environment, "UV_NO_CACHE") or found.flag("no-cache")),
        keyring=keyring == "subprocess",
        web=WebAccess(
            certificate=from_folder(certificate, folder) or None,
            client_certificate=from_folder(environment.get("SSL_CLIENT_CERT", ""), folder) or None,
            trusted_hosts=(
                *environment.get("UV_INSECURE_HOST", "").split(),
                *found.texts("allow-insecure-host"),
            ),
            timeout=_seconds(environment),
            retries=read_retries(environment.get("UV_HTTP_RETRIES", ""), 3),
        ),
        logins=_logins(indexes, environment),
        read=tuple(found.read),
        unread=found.unread,
        looked_from=project_folder(environment, folder),
    )


def _variable_indexes(environment: Mapping[str, str], folder: str) -> Iterator[_Index]:
    for text, default in (
        *((item, False) for item in environment.get("UV_INDEX", "").split()),
        (environment.get("UV_DEFAULT_INDEX", ""), True),
    ):
        if text:
            name, equal_signs, url = text.partition("=")
            if not equal_signs or "/" in name or ":" in name:
                name, url = "", text
            yield _Index(from_folder(url, folder), name, default)


def _file_indexes(found: UvFiles) -> Iterator[_Index]:
    for table, folder in found.tables:
        entries = setting(table, "index")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and isinstance(entry.get("url"), str):
                yield _Index(
                    from_folder(entry["url"], folder),
                    str(entry.get("name", "")),
                    entry.get("default") is True,
                    entry.get("format") == "flat",
                )


def _logins(indexes: list[_Index], environment: Mapping[str, str]) -> dict[str, Login]:
    """Return the logins of `UV_INDEX_<NAME>_USERNAME` and `…_PASSWORD`."""
    logins: dict[str, Login] = {}
    for index in indexes:
        prefix = "UV_INDEX_" + "".join(c if c.isalnum() else "_" for c in index.name.upper())
        user = environment.get(f"{prefix}_USERNAME")
        password = environment.get(f"{prefix}_PASSWORD")
        if index.name and (user or password):
            logins[index.url] = Login(user or "", password)
    return logins


def _seconds(environment: Mapping[str, str]) -> float:
    seconds = 30.0
    for name in ("HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "UV_HTTP_TIMEOUT"):  # the last one wins
        seconds = read_seconds(environment.get(name, ""), seconds)
    return seconds
