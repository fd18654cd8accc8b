"""Debian packages unpacked into a folder, and sources: nothing is installed, no script is run.

apt downloads them with settings of its own: it verifies signatures and hashes, and goes on with a
download that was cut off. dpkg unpacks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from quiet_command import CommandFailedError, run


class PackagesError(Exception):
    """The packages cannot be had; the text says why, and what to do."""


@dataclass(frozen=True)
class PackageSet:
    """What is unpacked.

    Attributes:
        suite: Of Debian, such as `trixie`.
        architecture: As Debian names it, such as `arm64`.
        packages: Their names.
        dependencies: Whether what they depend on comes along.
    """

    suite: str
    architecture: str
    packages: tuple[str, ...]
    dependencies: bool = True

    def __str__(self) -> str:
        more = "with dependencies" if self.dependencies else "alone"
        return f"{self.suite} {self.architecture} {' '.join(self.packages)} {more}\n"


def unpack(wanted: PackageSet, target: Path) -> None:
    """Download and unpack packages, unless the folder holds them already.

    Args:
        wanted: The packages.
        target: The folder; apt's own files and the downloads lie beside it, and stay there.

    Raises:
        PackagesError: apt of this machine has no Debian archive, or it cannot be reached.
    """
    done = target.with_suffix(".packages")
    if done.is_file() and done.read_text(encoding="utf-8") == str(wanted):
        return
    apt = target.with_suffix(".apt")
    options = _update(apt, "deb", wanted.suite, wanted.architecture)
    if wanted.dependencies:
        verb: tuple[str, ...] = ("install", "--yes", "--no-install-recommends", "--download-only")
        archives = apt / "cache" / "archives"
    else:
        verb, archives = ("download",), apt
    _run("apt-get", "-q", *options, *verb, *wanted.packages, cwd=apt)
    for archive in sorted(archives.glob("*.deb")):
        _run("dpkg", "-x", str(archive), str(target), cwd=apt)
    done.write_text(str(wanted), encoding="utf-8")


def move_below_usr(target: Path) -> None:
    """Move what was unpacked into `lib` to `usr/lib`, to which it is a link on today's systems."""
    for path in sorted((target / "lib").rglob("*")):
        if path.is_symlink() or path.is_file():
            place = target / "usr" / path.relative_to(target)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)


def source_archive(suite: str, package: str, target: Path) -> Path:
    """Download what a source package was made from, without Debian's changes.

    Args:
        suite: Of Debian, such as `trixie`.
        package: Name of the source package.
        target: apt's own files and the archive lie beside it.

    Returns:
        The archive.

    Raises:
        PackagesError: apt of this machine has no Debian archive, or it cannot be reached.
    """
    apt = target.with_suffix(".apt")
    options = _update(apt, "deb-src", suite, "")
    words = ("source", "--download-only", "--tar-only", "--only-source", package)
    _run("apt-get", "-q", *options, *words, cwd=apt)
    found = apt.glob(f"{package}_*.orig.tar.*")
    archives = sorted(found, key=lambda path: path.stat().st_mtime)
    archives = [path for path in archives if path.suffix != ".asc"]
    if not archives:
        raise PackagesError(f"apt-get source {package} of {suite} has left no archive in {apt}")
    return archives[-1]


def archive_address() -> str:
    """Return the Debian archive that this machine's own apt uses.

    Raises:
        PackagesError: There is none.
    """
    words = ("indextargets", "--format", "$(REPO_URI) $(SUITE)", "Created-By: Packages")
    lines = [line.split() for line in _run("apt-get", *words).splitlines()]
    found = [line[0] for line in lines if line and line[0].rstrip("/").endswith("/debian")]
    if not found:
        raise PackagesError("apt of this machine names no Debian archive, so there is no compiler")
    return found[0]


def _update(apt: Path, kind: str, suite: str, architecture: str) -> list[str]:
    """Give apt a folder of its own, and the lists of one suite; gives its options for that.

    Args:
        apt: The folder.
        kind: `deb` or `deb-src`.
        suite: Of Debian.
        architecture: As Debian names it; empty for this machine's.
    """
    for name in ("lists/partial", "cache/archives/partial", "state"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "debian.sources").write_text(
        f"Types: {kind}\nURIs: {archive_address()}\nSuites: {suite}\nComponents: main\n"
        + (f"Architectures: {architecture}\n" if architecture else "")
        + "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
        encoding="utf-8",
    )
    options = _options(apt, architecture)
    _run("apt-get", "-q", *options, "update", cwd=apt)
    return options


def _options(apt: Path, architecture: str) -> list[str]:
    chosen = ("APT::Architecture", "APT::Architectures") if architecture else ()
    settings = dict.fromkeys(chosen, architecture) | {
        "APT::Sandbox::User": "root",
        "APT::Update::Error-Mode": "any",
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Retries": "2",
        "Dir::Etc::sourcelist": str(apt / "debian.sources"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": str(apt / "state"),
        "Dir::State::lists": str(apt / "lists"),
        "Dir::State::status": str(apt / "status"),
        "Dir::Cache": str(apt / "cache"),
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _run(*words: str, cwd: Path | None = None) -> str:
    try:
        return run(*words, cwd=cwd)
    except CommandFailedError as error:
        raise PackagesError(
            f"{error}\nDebian and its like have apt and dpkg; where their archive cannot be "
            "reached, copy what this leaves behind where it can"
        ) from None
