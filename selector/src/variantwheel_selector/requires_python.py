"""`Requires-Python`: which versions of a project installers leave out for a Python."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import BinaryIO

from variantwheel_selector.header_fields import header_values
from variantwheel_selector.packaging_library import specifiers
from variantwheel_selector.record import record
from variantwheel_selector.sdist_tar import open_sdist

_METADATA_LIMIT = 16 * 1024 * 1024
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


def python_allowed(requires_python: str, python: str) -> bool:
    """Tell whether a file is for a Python.

    Args:
        requires_python: As the file states it, such as `>=3.10`; empty if it states nothing.
        python: Such as `3.11.7`.
    """
    if not requires_python:
        return True
    try:
        return specifiers.SpecifierSet(requires_python).contains(python, prereleases=True)
    except specifiers.InvalidSpecifier:
        return True  # as pip does: what cannot be read does not forbid


def python_refusal(requires_python: str, python: str) -> str:
    """Return why a file is not for a Python, in words; empty if it is."""
    if python_allowed(requires_python, python):
        return ""
    return f"needs Python {requires_python}, this is {python}"


@record
class PythonFilter:
    """Leaves out what installers do not look at: versions that are not for a Python.

    Attributes:
        pythons: Those that a version must be for, such as `3.11.7`.
        stated: Gives what the files of a version state, the empty string for one that does not.
    """

    pythons: tuple[str, ...]
    stated: Callable[[str], Sequence[str]]

    def requirement(self, version: str) -> str:
        """Return what a version requires if all of its files exclude a Python, else nothing."""
        stated = self.stated(version)
        for python in self.pythons:
            if stated and not any(python_allowed(text, python) for text in stated):
                return " or ".join(dict.fromkeys(stated))
        return ""

    def words(self) -> str:
        """Return the Pythons for a message."""
        return " and ".join(dict.fromkeys(self.pythons))


def stated_requirement(file: BinaryIO, filename: str) -> str:
    """Return `Requires-Python` of the metadata in a wheel or an sdist.

    Returns:
        The empty string if it states nothing, and where the file cannot be read: that is said by
        whoever needs more of it.
    """
    try:
        content = _wheel_metadata(file) if filename.endswith(".whl") else _sdist_metadata(file)
    except _UNREADABLE:
        return ""
    return requirement_in(content)


def requirement_in(metadata: bytes) -> str:
    """Return `Requires-Python` of a METADATA or PKG-INFO; empty if it states nothing."""
    return next(header_values(metadata, "Requires-Python"), "")


def _wheel_metadata(file: BinaryIO) -> bytes:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            folder, _, name = info.filename.partition("/")
            if folder.endswith(".dist-info") and name == "METADATA":
                return archive.read(info) if info.file_size <= _METADATA_LIMIT else b""
    return b""


def _sdist_metadata(file: BinaryIO) -> bytes:
    with open_sdist(file) as archive:
        for member in archive:
            if member.isfile() and member.name.partition("/")[2] == "PKG-INFO":
                content = archive.extractfile(member)
                if content is not None and member.size <= _METADATA_LIMIT:
                    return content.read()
    return b""
