"""Hands over wheels that were looked through when the sdist was packed: hashed, not opened again.

Whoever packs an sdist puts every wheel through `payload.check_wheel`, and writes down its hash and
that of the manifest it agrees with. Bytes that have this hash need not be opened in each
installation; `zipfile` and all that it imports is a good part of an installation's time.
"""

from __future__ import annotations

import json

from variantwheel_selector.archive_tail import add_listed
from variantwheel_selector.wheel_file import Pieces, hashed_copy, write_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

PREPARED_PATH = "payload/prepared.json"
"""What was prepared when the sdist was packed; there is none for payloads that are fetched."""


def prepared_members() -> dict[str, object]:
    """Return what was prepared for the sdist in the current folder.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no JSON object.
        RecursionError: Its values are nested too deeply.
    """
    with open(PREPARED_PATH, "rb") as file:  # noqa: PTH123 - pathlib takes time
        found = json.loads(file.read())
    if not isinstance(found, dict):
        raise ValueError(f"{PREPARED_PATH} holds no object")  # noqa: TRY004 - as for other text
    return found


def hand_over_checked(
    path: str,
    ranges: Sequence[Sequence[int]],
    promised: tuple[int, str],
    listed: tuple[str, str, bytes],
    target: tuple[str, str],
) -> bool:
    """Write a wheel with one more file, which its RECORD lists.

    Args:
        path: Of the file that the wheel's pieces are in.
        ranges: The pieces, each as offset and length in bytes.
        promised: Size in bytes and SHA-256 of the wheel as it was packed.
        listed: Of the new file: the `.dist-info` folder, its name there, its content.
        target: The folder that the wheel goes to, and its name.

    Returns:
        Whether it was done. Nothing is written if the bytes are not the promised ones, or the
        archive is not of the plain form that `archive_tail` changes.

    Raises:
        OSError: The file cannot be read, or the wheel not be written.
        ValueError: The ranges cannot be read, whatever the file.
        OverflowError: As above.
    """

    def write(copy: BinaryIO) -> bool:
        with open(path, "rb", buffering=0) as wheels:  # noqa: PTH123 - pathlib takes time
            found = hashed_copy(Pieces(wheels, ranges).readinto, copy)
        return found == promised and add_listed(copy, *listed)

    return write_beside(*target, write)


def outcome(project: str, label: str | None, filename: str, *, forced: bool = False) -> str:
    """Return the line that the installer's log gets."""
    return f"{project}: variant {label}{' (forced)' if forced else ''} -> {filename}\n"
