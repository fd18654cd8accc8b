"""An AArch64 Debian with Python, unpacked into a folder, and an emulator that knows its CPUs.

The emulator comes from Debian 13, because that of Debian 12 has no Neoverse V1.

    python ci/emulated_machine.py FOLDER      prints the paths of the emulator and of the system
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from debian_packages import PackagesError, PackageSet, unpack

_SYSTEM = PackageSet("bookworm", "arm64", ("libpython3.11-stdlib", "python3.11-minimal", "zlib1g"))
_EMULATOR = PackageSet("trixie", "amd64", ("qemu-user",), dependencies=False)


@dataclass(frozen=True)
class EmulatedMachine:
    """Where its parts lie.

    Attributes:
        emulator: qemu-aarch64.
        root: The system's root folder.
    """

    emulator: Path
    root: Path


def prepare(folder: Path) -> EmulatedMachine:
    """Download and unpack what is not there yet.

    Raises:
        PackagesError: The packages cannot be had.
    """
    unpack(_EMULATOR, folder / "emulator")
    unpack(_SYSTEM, folder / "system")
    return EmulatedMachine(folder / "emulator" / "usr" / "bin" / "qemu-aarch64", folder / "system")


if __name__ == "__main__":
    try:
        found = prepare(Path(sys.argv[1]).resolve())
    except PackagesError as error:
        sys.exit(f"emulated_machine: error: {error}")
    print(found.emulator, found.root)
