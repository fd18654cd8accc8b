"""What conda wrote down about a package that it installed: the records in `conda-meta`.

Format: CEP 34's repodata record, one `NAME-VERSION-BUILD.json` per package in the environment;
conda, mamba and pixi all write it.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from variantwheel_selector.record import record

_RECORDS = "conda-meta"
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
    """

    prefix: str
    name: str
    version: str
    build: str
    channel: str
    by_pixi: bool = False

    @property
    def client(self) -> str:
        """The program that keeps the environment."""
        return "pixi" if self.by_pixi else "conda"

    @property
    def repair_command(self) -> str:
        """Let the solver choose the build anew, for the machine that it runs on."""
        if self.by_pixi:
            return f"pixi update {self.name}"
        channel = f" --channel {shlex.quote(self.channel)}" if self.channel else ""
        return (
            f"conda install --prefix {shlex.quote(self.prefix)}{channel} "
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
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        # Another package's name may begin with this one.
        if isinstance(record, dict) and record.get("name") == project:
            texts = [record.get(key) for key in ("version", "build", "channel")]
            version, build, channel = (item if isinstance(item, str) else "" for item in texts)
            pixi = (place / _RECORDS / _PIXI_NOTE).exists()
            return CondaInstallation(
                str(place), project, version, build, channel.rstrip("/"), by_pixi=pixi
            )
    return None
