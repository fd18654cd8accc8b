"""conda packages (`.conda`, `.tar.bz2`): metadata and files, read as a whole (CEP 34, 35)."""

from __future__ import annotations

import bz2
import hashlib
import importlib
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NoReturn, cast

from variantwheel.errors import CondaFormatError, ReleaseToolError
from variantwheel.expansion import CountedStream, Expansion
from variantwheel_selector.payload import INVALID_ARCHIVE

SUFFIXES = (".conda", ".tar.bz2")
_HASH_DIGITS = 7


@dataclass(frozen=True)
class CondaPackage:
    """The content of a conda package.

    Attributes:
        file: The package.
        index: `info/index.json`.
        about: `info/about.json`.
        paths: `info/paths.json`, by path.
        hash_input: The bytes of `info/hash_input.json`; none if it is missing.
        files: Bytes by path, without `info`; symbolic links are left out.
        links: What symbolic links point to, by path.
        modes: The permissions of files, by path.
        info: The paths in `info`.
    """

    file: Path
    index: Mapping[str, object]
    about: Mapping[str, object]
    paths: Mapping[str, Mapping[str, object]]
    hash_input: bytes | None
    files: Mapping[str, bytes]
    links: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    info: frozenset[str] = frozenset()

    def text(self, key: str) -> str:
        """Return a string of `index.json`; empty if it has none of that name."""
        value = self.index.get(key, "")
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings of `index.json`."""
        value = self.index.get(key, ())
        return tuple(map(str, value)) if isinstance(value, list) else ()

    @property
    def number(self) -> int | None:
        """The build number."""
        value = self.index.get("build_number")
        return value if isinstance(value, int) else None


def is_conda_package(file: Path) -> bool:
    """Tell by its name whether a file should be a conda package."""
    return file.name.endswith(SUFFIXES)


def read_conda_package(file: Path) -> CondaPackage:
    """Read a package.

    Raises:
        CondaFormatError: It is damaged, or lacks `info/index.json` or `info/paths.json`.
        ReleaseToolError: The library that unpacks it is not installed.
    """
    info: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    modes: dict[str, int] = {}
    try:
        for member, data in _members(file):
            name, linked = (path.removeprefix("./") for path in (member.name, member.linkname))
            target = info if name.startswith("info/") else files
            if member.issym():
                links[name] = member.linkname
            elif member.isfile():
                target[name], modes[name] = data, member.mode
            elif member.islnk() and linked in target:
                target[name], modes[name] = target[linked], modes[linked]
            elif not member.isdir():
                _refuse(file, member)
    except CondaFormatError:
        raise
    except (OSError, tarfile.TarError, *INVALID_ARCHIVE) as error:
        raise CondaFormatError(f"{file}: not a readable conda package: {error}") from error
    paths = _json(file, info, "info/paths.json").get("paths")
    if not isinstance(paths, list) or not all(isinstance(item, dict) for item in paths):
        raise CondaFormatError(f"{file}: info/paths.json: no list of paths")
    about = _json(file, info, "info/about.json") if "info/about.json" in info else {}
    return CondaPackage(
        file=file,
        index=_json(file, info, "info/index.json"),
        about=about,
        paths={str(item.get("_path")): item for item in paths},
        hash_input=info.get("info/hash_input.json"),
        files=files,
        links=links,
        modes=modes,
        info=frozenset(info),
    )


def hashed_values(package: CondaPackage) -> dict[str, object]:
    """Return what `hash_input.json` says went into the hash; nothing if it is missing.

    Raises:
        CondaFormatError: It is no JSON object.
    """
    data = package.hash_input
    return {} if data is None else _object(package.file, "info/hash_input.json", data)


def build_hash(package: CondaPackage) -> str | None:
    """Recompute the hash that a build string shows; none for a package without `hash_input.json`.

    rattler-build hashes the bytes of the file as it stands in the package; conda-build, which alone
    writes its version into `about.json`, hashes it with sorted keys and json's usual separators.

    Raises:
        CondaFormatError: The file is no JSON object, in a package of conda-build's.
    """
    data = package.hash_input
    if data is None:
        return None
    if "conda_build_version" in package.about:
        try:
            data = json.dumps(hashed_values(package), sort_keys=True).encode()
        except RecursionError as error:
            raise CondaFormatError(f"{package.file}: info/hash_input.json: {error}") from error
    # The format's own choice of a digest; nothing is protected by it.
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:_HASH_DIGITS]


def _json(file: Path, info: Mapping[str, bytes], name: str) -> dict[str, object]:
    if name not in info:
        raise CondaFormatError(f"{file}: {name} is missing")
    return _object(file, name, info[name])


def _object(file: Path, name: str, data: bytes) -> dict[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CondaFormatError(f"{file}: {name}: not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise CondaFormatError(f"{file}: {name}: not a JSON object")
    return document


def _members(file: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    unpacked, held = Expansion(file), Expansion(file)
    if not file.name.endswith(".conda"):
        with bz2.open(file) as plain:
            yield from _contents(cast("BinaryIO", plain), unpacked, held)
        return
    zstd = _zstandard(file)
    try:
        with zipfile.ZipFile(file) as outer:
            for name in outer.namelist():
                if name.endswith(".tar.zst"):
                    with (
                        outer.open(name) as packed,
                        zstd.ZstdFile(packed) as plain,
                    ):
                        yield from _contents(plain, unpacked, held)
    except zstd.ZstdError as error:
        raise CondaFormatError(f"{file}: not a readable conda package: {error}") from error


def _contents(
    stream: BinaryIO, unpacked: Expansion, held: Expansion
) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Give the members of a tar file; neither it nor they, some with holes, may be huge."""
    counted = cast("BinaryIO", CountedStream(stream, unpacked))  # all of it that tarfile uses
    with tarfile.open(fileobj=counted, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            yield member, b"" if content is None else held.read_all(cast("BinaryIO", content))


def _refuse(file: Path, member: tarfile.TarInfo) -> NoReturn:
    what = "neither a file nor a link nor a folder"
    if member.islnk():
        what = f"a hard link to {member.linkname}, which is no file that comes before it"
    raise CondaFormatError(f"{file}: {member.name}: {what}")


def _zstandard(file: Path) -> ModuleType:
    """Import what unpacks `.conda`; a part of Python from 3.14 on."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ReleaseToolError(
            f"{file}: to read conda packages, install backports.zstd: "
            "pip install 'variantwheel[conda]'"
        ) from error
