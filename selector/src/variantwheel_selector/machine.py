"""A machine: the captured facts about one computer and its Python, as texts in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from variantwheel_selector.errors import MachineFolderError
from variantwheel_selector.json_text import render_json
from variantwheel_selector.record import field, record
from variantwheel_selector.strict_json import JsonNode, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

MACHINE_FILE = "machine.json"
CPUINFO = "cpuinfo.txt"
AUXV = "auxv.txt"
GLIBC_CPUID = "glibc_cpuid.txt"

DEVICE_FILES = "device_files.txt"
GPU_FILES = "gpu_files.txt"
GPU_ENVIRONMENT = "gpu_environment.txt"
NVIDIA_DRIVER = "nvidia_driver.txt"
NVIDIA_SMI = "nvidia_smi.txt"
KFD_NODES = "kfd_nodes.txt"
PCI_CARDS = "pci_cards.txt"
SYSCTL = "sysctl.txt"
LIBRARIES = "libraries.txt"
BATCH_SYSTEM = "batch_system.txt"

TEXT_LIMITS = {
    CPUINFO: 16 * 1024,
    AUXV: 4 * 1024,
    GLIBC_CPUID: 4 * 1024,
    DEVICE_FILES: 32 * 1024,
    GPU_FILES: 16 * 1024,
    GPU_ENVIRONMENT: 4 * 1024,
    NVIDIA_DRIVER: 64 * 1024,
    NVIDIA_SMI: 4 * 1024,
    KFD_NODES: 512 * 1024,
    PCI_CARDS: 8 * 1024,
    SYSCTL: 16 * 1024,
    LIBRARIES: 32 * 1024,
    BATCH_SYSTEM: 4 * 1024,
}
"""The text files that a machine folder may hold, with the most bytes that are read."""

_MACHINE_LIMIT = 64 * 1024
_PROFILE_LIMIT = 2 * 1024 * 1024
_SCHEMA = 1
_PYTHON_VERSION_PATTERN = r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}"


@record
class PythonFacts:
    """The interpreter that will load the wheel.

    Attributes:
        interpreter: As in wheel tags, such as `cp311`.
        version: Such as `3.11.7`.
        abis: As in wheel tags, best first; a debug build has two.
    """

    interpreter: str
    version: str
    abis: tuple[str, ...]


@record
class Machine:
    """Captured facts about one computer.

    Attributes:
        system: `linux`, `darwin` or `win32`.
        machine: The CPU's architecture as the kernel says it, such as `x86_64`.
        pointer_bits: Of the interpreter; 32 on a 64-bit kernel means a 32-bit userland.
        libc: Name and version, such as `glibc 2.36`; none if unknown.
        python: The interpreter.
        texts: File names of `TEXT_LIMITS` to what was read.
        unknown: Facts that could not be found out, each with the reason.
    """

    system: str
    machine: str
    pointer_bits: int
    libc: str | None
    python: PythonFacts
    texts: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> dict[str, str]:
        """Return what is known without a provider, by name, in words."""
        return {
            "machine": self.machine,
            "system": self.system,
            "pointer_bits": str(self.pointer_bits),
            "libc": self.libc or f"unknown: {self.unknown.get('libc', 'not captured')}",
            "python": self._python_words(),
        }

    def _python_words(self) -> str:
        free_threaded = any(abi.endswith(("t", "td")) for abi in self.python.abis)
        words = f"{self.python.interpreter} {self.python.version}"
        return f"{words}, free-threaded" if free_threaded else words

    def to_json(self) -> dict[str, object]:
        """Return the content of `machine.json`."""
        return {
            "schema": _SCHEMA,
            "system": self.system,
            "machine": self.machine,
            "pointer_bits": self.pointer_bits,
            "libc": self.libc,
            "python": {
                "interpreter": self.python.interpreter,
                "version": self.python.version,
                "abis": list(self.python.abis),
            },
            "unknown": dict(sorted(self.unknown.items())),
        }


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
    root.object(("schema",), ignore_unknown=True)["schema"].schema_number(_SCHEMA)
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
    """
    import tempfile  # noqa: PLC0415 - hooks write no machine
    from pathlib import Path  # noqa: PLC0415 - as above

    try:
        if path.exists():
            raise MachineFolderError(f"{str(path)!r} exists already")
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(render_profile(machine))
            Path(beside).chmod(0o644)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise MachineFolderError(f"cannot write {str(path)!r}: {error.strerror}") from error


def write_machine(machine: Machine, folder: Path) -> None:
    """Write a machine as a new folder, or into an empty one.

    Raises:
        MachineFolderError: There is something at this place already, or it cannot be written to.
    """
    import tempfile  # noqa: PLC0415 - as above
    from pathlib import Path  # noqa: PLC0415 - as above

    texts = {**machine.texts, MACHINE_FILE: render_json(machine.to_json())}
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise MachineFolderError(f"{str(folder)!r} exists already and is not an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".capture-") as beside:
            for name, text in texts.items():
                Path(beside, name).write_text(text, encoding="utf-8")
            # machine.json comes last: without it the folder is no machine.
            for name in texts:
                Path(beside, name).replace(folder / name)
    except OSError as error:
        raise MachineFolderError(f"cannot write {str(folder)!r}: {error.strerror}") from error


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
