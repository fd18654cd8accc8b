"""What the installed distribution says about itself: version, installer, and how to mend it."""

import importlib.metadata
import importlib.util
import json

try:
    from horovod._native._buildinfo import VERSION as _BUILT_VERSION
except ImportError:  # a tree that is not built
    _BUILT_VERSION = ""

DISTRIBUTION = "horovod-variants"
_COMMANDS = {
    "pip": "pip install --no-cache-dir --force-reinstall --no-deps {distribution}=={version}",
    "uv": "uv pip install --no-cache --reinstall --no-deps {distribution}=={version}",
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


def label() -> str:
    """The label of the installed variant by its own `variant.json`; "" where it does not say."""
    try:
        text = importlib.metadata.distribution(DISTRIBUTION).read_text("variant.json")
        (found,) = json.loads(text or "")["variants"]
    except (importlib.metadata.PackageNotFoundError, ValueError, LookupError, TypeError):
        return ""
    return str(found)


def repair_command() -> str:
    """The command that installs the build which fits this machine.

    Installers keep the wheel that a source distribution was turned into, keyed by the source alone;
    a home directory that unlike machines share hands one machine's wheel to the other. Hence each
    command passes over the cache. Where the selector is installed it knows more: the environment
    and where the release came from; of a conda environment client and channels.
    """
    if importlib.util.find_spec("variantwheel_selector") is not None and (
        known := _selectors_command()
    ):
        return known
    command = _COMMANDS.get(installer(), _COMMANDS["pip"])
    return command.format(distribution=DISTRIBUTION, version=version())


def _selectors_command() -> str:
    from variantwheel_selector.errors import SelectorError  # noqa: PLC0415 - for a misfit alone
    from variantwheel_selector.installed import read_installed  # noqa: PLC0415 - as above
    from variantwheel_selector.verify import repair_commands  # noqa: PLC0415 - as above

    try:
        return next(iter(repair_commands(read_installed(DISTRIBUTION)).values()))
    except SelectorError:
        return ""
