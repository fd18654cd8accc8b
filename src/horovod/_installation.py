"""What the installed distribution says about itself: version, installer, and how to mend it."""

import importlib.metadata
import json
import shlex
import sys
from pathlib import Path

try:
    from horovod._native._buildinfo import VERSION as _BUILT_VERSION
except ImportError:  # a tree that is not built
    _BUILT_VERSION = ""

DISTRIBUTION = "horovod-variants"
_COMMANDS = {
    "pip": "pip install --no-cache-dir --force-reinstall --no-deps {distribution}=={version}",
    "uv": "uv pip install --reinstall --refresh --no-deps {distribution}=={version}",
    "conda": "conda install --prefix {prefix}{channel} --force-reinstall {distribution}={version}",
    "pixi": "pixi update {distribution}",
}
UNKNOWN_VERSION = "0+unknown"


def version() -> str:
    """The version that the build wrote down, or the distribution's, or `UNKNOWN_VERSION`."""
    if _BUILT_VERSION:
        return _BUILT_VERSION
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN_VERSION


def installer() -> str:
    """Who installed the distribution ("pip", "uv", …), or "" where nobody left a note."""
    try:
        note = importlib.metadata.distribution(DISTRIBUTION).read_text("INSTALLER")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return (note or "").strip()


def repair_command() -> str:
    """The command that installs the build which fits this machine.

    Installers keep the wheel that a source distribution was turned into, keyed by the source alone;
    a home directory that unlike machines share hands one machine's wheel to the other. Hence each
    command passes over the cache. conda's solver has to choose anew, from the same channel.
    """
    who = installer()
    if who == "conda" and Path(sys.prefix, "conda-meta", "pixi").exists():
        who = "pixi"
    return _COMMANDS.get(who, _COMMANDS["pip"]).format(
        distribution=DISTRIBUTION,
        version=version(),
        prefix=shlex.quote(sys.prefix),
        channel=_conda_channel() if who == "conda" else "",
    )


def _conda_channel() -> str:
    """Conda's option for the channel that the package came from; "" where none is recorded."""
    for file in Path(sys.prefix, "conda-meta").glob(f"{DISTRIBUTION}-{version()}-*.json"):
        try:
            channel = json.loads(file.read_text(encoding="utf-8"))["channel"]
        except (OSError, ValueError, KeyError):
            continue
        return f" --channel {shlex.quote(str(channel).rstrip('/'))}"
    return ""
