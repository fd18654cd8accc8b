"""What conda wrote down about a package that it installed: the records in `conda-meta`.

Format: CEP 34's repodata record, one `NAME-VERSION-BUILD.json` per package in the environment;
conda, mamba and pixi all write it.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from variantwheel_selector.record import record

_RECORDS = "conda-meta"
_HISTORY = "history"
"""Among the records: which command changed the environment, a line `# cmd: ...` for each."""
_CLIENTS = ("conda", "mamba", "micromamba")
"""Programs that take the same words after `install`."""
_SECRET = re.compile(r"(?<=//)[^/@]*@|/t/[^/]+(?=/)")
"""A login or token in a channel's URL; clients add those that they are configured with."""
_PIXI_NOTE = "pixi"
"""A file of this name among the records is pixi's: the environment belongs to a workspace."""


@record
class CondaInstallation:
    """A package in a conda environment.

    Attributes:
        prefix: The environment's folder.
        name: Of the package.
        version: Of the package.
        build: Its build string, which names the variant.
        channel: Where it came from; empty if that is not recorded.
        by_pixi: Whether pixi keeps the environment.
        client: The program that changed the environment last.
        other_channels: Those of the other packages, the one with most packages first.
    """

    prefix: str
    name: str
    version: str
    build: str
    channel: str
    by_pixi: bool = False
    client: str = "conda"
    other_channels: tuple[str, ...] = ()

    @property
    def repair_command(self) -> str:
        """Let the solver choose the build anew, for the machine that it runs on.

        Another build can have other dependencies, so that all channels are named.
        """
        if self.by_pixi:
            return f"pixi update {self.name}"
        named = filter(None, (self.channel, *self.other_channels))
        channels = "".join(f" --channel {shlex.quote(item)}" for item in named)
        return (
            f"{self.client} install --prefix {shlex.quote(self.prefix)}{channels} "
            f"--force-reinstall {self.name}={self.version}"
        )

    def to_json(self) -> dict[str, object]:
        """Return what `verify --json` prints of it."""
        return {
            "prefix": self.prefix,
            "build": self.build,
            "channel": self.channel,
            "by_pixi": self.by_pixi,
        }


def find_conda_installation(project: str, prefix: Path | None = None) -> CondaInstallation | None:
    """Find the conda package of a project; one that cannot be read counts as none.

    Args:
        project: The name of the package, which is that of the distribution.
        prefix: The environment; by default the one that runs this.

    Returns:
        What is recorded, or none outside conda environments.
    """
    place = Path(sys.prefix) if prefix is None else prefix
    for file in sorted((place / _RECORDS).glob(f"{project}-*.json")):
        entry = _read_record(file)
        # Another package's name may begin with this one.
        if entry.get("name") == project:
            channel = _channel(entry)
            everyone = map(_read_record, (place / _RECORDS).glob("*.json"))
            counted = Counter(filter(None, map(_channel, everyone)))
            pixi = (place / _RECORDS / _PIXI_NOTE).exists()
            return CondaInstallation(
                prefix=str(place),
                name=project,
                version=_text(entry, "version"),
                build=_text(entry, "build"),
                channel=channel,
                by_pixi=pixi,
                client="pixi" if pixi else _last_client(place / _RECORDS / _HISTORY),
                other_channels=tuple(name for name, _ in counted.most_common() if name != channel),
            )
    return None


def _read_record(file: Path) -> Mapping[str, object]:
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _channel(entry: Mapping[str, object]) -> str:
    """Return a package's channel without login, and without the platform, which conda appends.

    >>> _channel({"channel": "https://me:secret@example.org/ours/linux-64", "subdir": "linux-64"})
    'https://example.org/ours'
    """
    channel = _SECRET.sub("", _text(entry, "channel")).rstrip("/")
    before, _, platform = channel.rpartition("/")
    return before if platform in ("noarch", _text(entry, "subdir")) and before else channel


def _last_client(history: Path) -> str:
    """Return the program of the last line `# cmd: /opt/bin/mamba install ...`, or conda."""
    try:
        lines = history.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _CLIENTS[0]
    for line in reversed(lines):
        if line.startswith("# cmd: "):
            program = Path(line.removeprefix("# cmd: ").partition(" ")[0]).name
            return program if program in _CLIENTS else _CLIENTS[0]
    return _CLIENTS[0]
