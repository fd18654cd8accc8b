"""Captured machines on disk: a folder of texts, or one file with all of them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from variantwheel_selector.errors import MachineFolderError
from variantwheel_selector.json_text import render_json
from variantwheel_selector.machine import SCHEMA, TEXT_LIMITS, Machine, PythonFacts
from variantwheel_selector.strict_json import JsonNode, parse_json
from variantwheel_selector.system_refusal import is_refusal
from variantwheel_selector.wheel_file import make_readable

MACHINE_FILE = "machine.json"

_MACHINE_LIMIT = 64 * 1024
_PROFILE_LIMIT = 2 * 1024 * 1024
_PYTHON_VERSION_PATTERN = r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}"


def read_machine(path: Path) -> Machine:
    """Read a captured machine: its folder, or the one file that `render_profile` writes.

    Only files with known names are opened, symbolic links are not followed, and no file may be
    larger than its limit: it may come from a stranger's bug report.

    Raises:
        MachineFolderError: There is no machine at this place.
    """
    return _read_folder(path) if path.is_dir() else _read_profile(path)


def _read_profile(path: Path) -> Machine:
    text = _read_file(path, _PROFILE_LIMIT)
    if text is None:
        raise MachineFolderError(
            f"{str(path)!r} does not exist; 'variantwheel capture' writes such a folder or file"
        )
    root = parse_json(text, str(path), MachineFolderError)
    members = root.object(("schema",), ("texts",), ignore_unknown=True)
    if "texts" not in members:
        root.fail(f"this is no profile: it has no 'texts'; name the folder of a {MACHINE_FILE}")
    texts: dict[str, str] = {}
    for name, node in members["texts"].object((), tuple(TEXT_LIMITS)).items():
        texts[name] = node.string()
        if len(texts[name].encode("utf-8")) > TEXT_LIMITS[name]:
            node.fail(f"larger than {TEXT_LIMITS[name]} bytes")
    return _machine(root, texts, ("texts",))


def _read_folder(folder: Path) -> Machine:
    text = _read_file(folder / MACHINE_FILE, _MACHINE_LIMIT)
    if text is None:
        raise MachineFolderError(
            f"{str(folder)!r} is no captured machine: it has no {MACHINE_FILE}; "
            "'variantwheel capture DIR' makes such a folder"
        )
    texts = {name: _read_file(folder / name, limit) for name, limit in TEXT_LIMITS.items()}
    return _machine(
        parse_json(text, MACHINE_FILE, MachineFolderError),
        {name: text for name, text in texts.items() if text is not None},
    )


def _machine(root: JsonNode, texts: Mapping[str, str], more: tuple[str, ...] = ()) -> Machine:
    root.object(("schema",), ignore_unknown=True)["schema"].schema_number(SCHEMA)
    members = root.object(
        ("schema", "machine", "pointer_bits", "libc", "python", "unknown"),
        ("system", *more),
    )
    python = members["python"].object(("interpreter", "version", "abis"))
    pointer_bits = members["pointer_bits"].integer()
    if pointer_bits not in (32, 64):
        members["pointer_bits"].fail(f"{pointer_bits} is neither 32 nor 64")
    return Machine(
        system=members["system"].string() if "system" in members else "linux",
        machine=members["machine"].string(),
        pointer_bits=pointer_bits,
        libc=None if members["libc"].value is None else members["libc"].string(),
        python=PythonFacts(
            python["interpreter"].string(),
            python["version"].string(_PYTHON_VERSION_PATTERN),
            python["abis"].strings(),
        ),
        texts=texts,
        unknown={key: node.string() for key, node in members["unknown"].members().items()},
    )


def render_profile(machine: Machine) -> str:
    """Write a machine as one JSON document, which `read_machine` reads."""
    return render_json({**machine.to_json(), "texts": dict(sorted(machine.texts.items()))})


def write_profile(machine: Machine, path: Path) -> None:
    """Write a machine as one new file.

    Raises:
        MachineFolderError: There is something at this place already, or it cannot be written to.
        OSError: The system refuses, as with a full disk.
    """
    with _writing(path):
        if path.exists():
            raise MachineFolderError(f"{str(path)!r} exists already")
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(render_profile(machine))
                make_readable(file.fileno())
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise


def write_machine(machine: Machine, folder: Path) -> None:
    """Write a machine as a new folder, or into an empty one.

    Raises:
        MachineFolderError: There is something at this place already, or it cannot be written to.
        OSError: The system refuses, as with a full disk.
    """
    texts = {**machine.texts, MACHINE_FILE: render_json(machine.to_json())}
    with _writing(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise MachineFolderError(f"{str(folder)!r} exists already and is not an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".capture-") as beside:
            for name, text in texts.items():
                Path(beside, name).write_text(text, encoding="utf-8")
            # machine.json comes last: without it the folder is no machine.
            for name in texts:
                Path(beside, name).replace(folder / name)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Word what keeps a place from being written to, but for what is no fault of the place."""
    try:
        yield
    except OSError as error:
        if is_refusal(error):
            error.filename = str(path)  # the user has not named the file beside it
            raise
        raise MachineFolderError(f"cannot write {str(path)!r}: {error.strerror}") from error


def _read_file(path: Path, limit: int) -> str | None:
    # Without O_NONBLOCK a named pipe would be waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MachineFolderError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MachineFolderError(f"cannot read {str(path)!r}: it is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise MachineFolderError(f"{str(path)!r} is larger than {limit} bytes")
    return data.decode("utf-8", errors="replace")
