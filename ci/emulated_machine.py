"""An AArch64 Debian with Python, unpacked into a folder, and an emulator that knows its CPUs.

Nothing is installed: apt downloads the packages with settings of its own, dpkg unpacks them. The
emulator comes from Debian 13, because that of Debian 12 has no Neoverse V1.

    python ci/emulated_machine.py FOLDER      prints the paths of the emulator and of the system
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = ("bookworm", "arm64", ("libpython3.11-stdlib", "python3.11-minimal", "zlib1g"))
_EMULATOR = ("trixie", "amd64", ("qemu-user",))
_DEADLINE = 900


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
    """Download and unpack what is not there yet."""
    machine = EmulatedMachine(
        folder / "emulator" / "usr" / "bin" / "qemu-aarch64", folder / "system"
    )
    _unpack(folder / "emulator", *_EMULATOR, dependencies=False)
    _unpack(folder / "system", *_SYSTEM, dependencies=True)
    return machine


def _unpack(
    target: Path, suite: str, architecture: str, packages: tuple[str, ...], *, dependencies: bool
) -> None:
    done = target.with_suffix(".packages")
    wanted = f"{suite} {architecture} {' '.join(packages)}\n"
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return
    apt = target.with_suffix(".apt")
    for name in ("lists/partial", "cache/archives/partial", "state"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "debian.sources").write_text(
        f"Types: deb\nURIs: {_mirror()}\nSuites: {suite}\nComponents: main\n"
        f"Architectures: {architecture}\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
        encoding="utf-8",
    )
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Check-Valid-Until": "false",
        "Dir::Etc::sourcelist": str(apt / "debian.sources"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": str(apt / "state"),
        "Dir::State::lists": str(apt / "lists"),
        "Dir::State::status": str(apt / "status"),
        "Dir::Cache": str(apt / "cache"),
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    _run("apt-get", "-q", *options, "update", cwd=apt)
    if dependencies:
        install = ("install", "--yes", "--no-install-recommends", "--download-only")
        _run("apt-get", "-q", *options, *install, *packages, cwd=apt)
        archives = apt / "cache" / "archives"
    else:
        _run("apt-get", "-q", *options, "download", *packages, cwd=apt)
        archives = apt
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg", "-x", str(archive), str(target), cwd=apt)
    done.write_text(wanted, encoding="utf-8")


def _mirror() -> str:
    """The archive that this machine's own apt uses."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    lines = [line.split() for line in listed.splitlines()]
    found = [uri for uri, suite in lines if uri.rstrip("/").endswith("/debian")]
    if not found:
        sys.exit("emulated_machine: error: apt of this machine names no Debian archive")
    return found[0]


def _run(*words: str, cwd: Path) -> None:
    done = subprocess.run(
        words,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_DEADLINE,
    )
    if done.returncode != 0:
        sys.exit(f"emulated_machine: error: {' '.join(words[:2])} failed:\n{done.stdout}")


if __name__ == "__main__":
    found = prepare(Path(sys.argv[1]).resolve())
    print(found.emulator, found.root)
