"""What the installed distribution says about itself: version, installer, and how to mend it."""

import importlib.metadata
import importlib.util

try:
    from horovod._native._buildinfo import VERSION as _BUILT_VERSION
except ImportError:  # a tree that is not built
    _BUILT_VERSION = ""

DISTRIBUTION = "horovod-variants"
_COMMANDS = {
    "pip": "pip install --no-cache-dir --force-reinstall --no-deps {distribution}=={version}",
    "uv": "uv pip install --reinstall --refresh --no-deps {distribution}=={version}",
    "conda": "conda install --force-reinstall {distribution}={version}",
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
    command passes over the cache. Of a conda environment the selector knows client and channels.
    """
    who = installer()
    if who == "conda" and importlib.util.find_spec("variantwheel_selector") is not None:
        from variantwheel_selector.conda_installation import (  # noqa: PLC0415 - for a misfit alone
            find_conda_installation,
        )

        found = find_conda_installation(DISTRIBUTION)
        if found is not None:
            return found.repair_command
    command = _COMMANDS.get(who, _COMMANDS["pip"])
    return command.format(distribution=DISTRIBUTION, version=version())
