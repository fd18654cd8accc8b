"""Hands a payload wheel over to pip or uv: its plain name, the decision inside, RECORD mended.

Installers accept neither a variant label in the name of a wheel that a build returned, nor a file
that RECORD does not know. The same wheel and decision always give the same bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
import zipfile

from variantwheel_selector.archive_tail import add_listed, record_hash
from variantwheel_selector.decision import DECISION_FILE, Decision, render_decision
from variantwheel_selector.errors import PayloadError
from variantwheel_selector.payload import (
    INVALID_ARCHIVE,
    check_members,
    check_wheel,
    copy_payload,
)
from variantwheel_selector.wheel_file import write_beside
from variantwheel_selector.wheel_name import WheelName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from variantwheel_selector.manifest import Manifest, PayloadWheel


def hand_over(
    path: Path,
    wheel: PayloadWheel,
    manifest: Manifest,
    tags: Sequence[str],
    decision: Decision,
    folder: Path,
) -> str:
    """Write the wheel that the PEP 517 hook returns, from a payload wheel that is checked first.

    Args:
        path: Where the payload wheel is, or the shared file with its pieces.
        wheel: What the manifest says of it.
        manifest: The release.
        tags: What this machine's Python accepts.
        decision: What is recorded in its `.dist-info` folder.
        folder: Where the new wheel goes; existing files of the same name are replaced.

    Returns:
        The file name, without label.

    Raises:
        PayloadError: The payload wheel is not what was promised, or there is no room for the copy.
    """

    def fill(file: BinaryIO) -> None:
        # Read once: what was hashed is what was copied, and what is checked and handed over.
        copy_payload(path, wheel, file)
        check_wheel(file, wheel, manifest, tags)

    plain = str(wheel.name.with_label(None))
    _write(fill, folder / plain, wheel.name.dist_info, decision)
    return plain


def add_decision(path: Path, decision: Decision) -> None:
    """Record the decision in a finished wheel which the project's own build made."""

    def fill(file: BinaryIO) -> None:
        with path.open("rb") as source:
            shutil.copyfileobj(source, file)

    _write(fill, path, WheelName.from_str(path.name).dist_info, decision)


def _write(
    fill: Callable[[BinaryIO], None], target: Path, dist_info: str, decision: Decision
) -> None:
    text = render_decision(decision).encode("utf-8")

    def write(file: BinaryIO) -> bool:
        fill(file)
        try:
            if not add_listed(file, dist_info, DECISION_FILE, text):
                _rewrite(file, dist_info, DECISION_FILE, text)
        except INVALID_ARCHIVE as error:
            raise PayloadError(f"{target.name!r} is not a valid wheel: {error}") from error
        return True

    try:
        write_beside(str(target.parent), target.name, write)
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> PayloadError:
    return PayloadError(
        f"cannot write {target.name} into {str(target.parent)!r}: {error.strerror or error}"
    )


def _rewrite(file: BinaryIO, dist_info: str, filename: str, content: bytes) -> None:
    """Add a file to a wheel of any form, member by member, and list it in RECORD."""
    record_path, new_path = f"{dist_info}/RECORD", f"{dist_info}/{filename}"
    with zipfile.ZipFile(file) as archive:
        check_members(archive, "the wheel")
        record = archive.getinfo(record_path)
        lines = archive.read(record).decode("utf-8")
        kept = [info for info in archive.infolist() if info.filename not in (record_path, new_path)]
        contents = [(info, archive.read(info)) for info in kept]
    rows = [row for row in csv.reader(io.StringIO(lines)) if row and row[0] != new_path]
    digest = record_hash(hashlib.sha256(content).digest())
    rows.insert(len(rows) - 1, [new_path, f"sha256={digest}", str(len(content))])
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    file.seek(0)
    file.truncate()
    with zipfile.ZipFile(file, "w") as archive:
        for info, data in contents:
            archive.writestr(info, data)
        for path, data in ((new_path, content), (record_path, written.getvalue().encode("utf-8"))):
            added = zipfile.ZipInfo(path, record.date_time)
            added.compress_type = zipfile.ZIP_DEFLATED
            added.create_system = 3
            added.external_attr = 0o100644 << 16
            archive.writestr(added, data)
    file.flush()
