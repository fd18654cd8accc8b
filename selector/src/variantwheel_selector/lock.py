"""Locks: for each machine profile the wheel that fits it, as pylock.toml and hashed requirements.

A lock is a folder. The wheels lie in it under their plain names, the released bytes unchanged,
since installers refuse names with labels; pylock.toml (PEP 751) and the requirements point to them.
So the folder installs without an index and without the selector, and no cache can mix it up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from email.parser import BytesParser
from pathlib import PurePosixPath

from variantwheel_selector.errors import NothingFitsError, UsageError
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import Manifest, PayloadWheel
from variantwheel_selector.record import record
from variantwheel_selector.requires_python import python_refusal
from variantwheel_selector.resolution import nothing_fits
from variantwheel_selector.selection import Release, select
from variantwheel_selector.settings import Settings
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.wheel_name import normalize_project

WHEELS_FOLDER = "wheels"
_NAME_PATTERN = r"[A-Za-z0-9_-]+"
_MARKER_SYSTEMS = {"linux": "linux", "darwin": "darwin", "win32": "win32"}


@record
class LockedWheel:
    """The wheel for one machine.

    Attributes:
        profile: The machine's name, as it may stand in `pylock.NAME.toml`.
        machine: Its facts.
        wheel: The released wheel.
    """

    profile: str
    machine: Machine
    wheel: PayloadWheel

    @property
    def plain_name(self) -> str:
        """The file name that installers accept."""
        return str(self.wheel.name.with_label(None))

    @property
    def path(self) -> PurePosixPath:
        """Where the wheel lies in the lock's folder."""
        return PurePosixPath(WHEELS_FOLDER, self.wheel.label, self.plain_name)

    def to_json(self) -> dict[str, object]:
        """Return what `lock --json` prints of it."""
        return {
            "profile": self.profile,
            "label": self.wheel.label,
            "filename": self.wheel.filename,
            "size": self.wheel.size,
            "sha256": self.wheel.sha256,
            "path": str(self.path),
            "pylock": f"pylock.{self.profile}.toml",
            "requirements": f"requirements.{self.profile}.txt",
        }


def profile_name(text: str) -> str:
    """Return the name of a profile for file names; PEP 751 allows no dot in it.

    Raises:
        UsageError: Nothing is left of it.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")
    if not re.fullmatch(_NAME_PATTERN, name):
        raise UsageError(f"{text!r} cannot be the name of a profile")
    return name


def lock_machines(
    manifest: Manifest,
    machines: Mapping[str, Machine],
    settings: Settings,
    requires_python: str = "",
) -> list[LockedWheel]:
    """Choose for each machine.

    Args:
        manifest: The release.
        machines: By the names of their profiles.
        settings: What the user asked for.
        requires_python: What the release states, such as `>=3.10`.

    Raises:
        NothingFitsError: A machine has no variant, or the release is not for its Python; nothing is
            locked then.
        VariantMisfitError: The user's settings ask for one that does not fit.
    """
    release = Release.from_manifest(manifest)
    by_filename = {wheel.filename: wheel for wheel in manifest.wheels}
    locked: list[LockedWheel] = []
    for profile, machine in machines.items():
        refusal = python_refusal(requires_python, machine.python.version)
        if refusal:
            raise NothingFitsError(
                f"profile {profile!r}: {manifest.name} {manifest.version} {refusal}"
            )
        resolution = select(release, settings, machine, supported_tags(machine)).resolution
        winner = resolution.winner
        if winner is None or winner.filename is None:
            words = nothing_fits(manifest.name, manifest.version, resolution)
            raise NothingFitsError(f"profile {profile!r}: {words}")
        locked.append(LockedWheel(profile, machine, by_filename[winner.filename]))
    return locked


def render_pylock(manifest: Manifest, locked: LockedWheel, metadata: bytes) -> str:
    """Write a `pylock.NAME.toml` (PEP 751) for one machine.

    Args:
        manifest: The release.
        locked: Its wheel for the machine.
        metadata: METADATA of the wheel, for `Requires-Python`.
    """
    machine = locked.machine
    system = _MARKER_SYSTEMS.get(machine.system, machine.system)
    marker = f"sys_platform == '{system}' and platform_machine == '{machine.machine}'"
    requires_python = _fields(metadata, "Requires-Python")
    lines = [
        'lock-version = "1.0"',
        f"environments = [{_toml(marker)}]",
        *(f"requires-python = {_toml(text)}" for text in requires_python[:1]),
        'created-by = "variantwheel"',
        "",
        "[[packages]]",
        f"name = {_toml(normalize_project(manifest.name))}",
        f"version = {_toml(manifest.version)}",
        "",
        "[[packages.wheels]]",
        f"name = {_toml(locked.plain_name)}",
        f"path = {_toml(str(locked.path))}",
        f"size = {locked.wheel.size}",
        f"hashes = {{ sha256 = {_toml(locked.wheel.sha256)} }}",
        "",
        "[packages.tool.variantwheel]",
        f"profile = {_toml(locked.profile)}",
        f"label = {_toml(locked.wheel.label)}",
        f"released-as = {_toml(locked.wheel.filename)}",
    ]
    return "\n".join(lines) + "\n"


def render_requirements(manifest: Manifest, locked: LockedWheel, metadata: bytes) -> str:
    """Write requirements with a hash, for installers that do not read pylock.toml."""
    pinned = f"{normalize_project(manifest.name)}=={manifest.version}"
    lines = [
        f"# {manifest.name} {manifest.version} for {locked.profile}: variant {locked.wheel.label},",
        f"# released as {locked.wheel.filename}",
        *(f"# not locked here: {need}" for need in unlocked_requirements(metadata)),
        "--no-index",
        f"--find-links {locked.path.parent}",
        f"{pinned} --hash=sha256:{locked.wheel.sha256}",
    ]
    return "\n".join(lines) + "\n"


def unlocked_requirements(metadata: bytes) -> Sequence[str]:
    """Return what the wheel needs besides, which a lock of one project does not hold."""
    return [need for need in _fields(metadata, "Requires-Dist") if "extra ==" not in need]


def _fields(metadata: bytes, name: str) -> list[str]:
    message = BytesParser().parsebytes(metadata, headersonly=True)
    return [" ".join(str(value).split()) for value in message.get_all(name) or []]


def _toml(text: str) -> str:
    """Return a TOML basic string; JSON's spelling is one but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
