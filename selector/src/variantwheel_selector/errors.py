"""The ways in which the selector can fail, each with the exit code of its command line."""

from __future__ import annotations


def printable(line: str) -> str:
    """Escape what a terminal would act upon: texts come from indexes and files of strangers."""
    if line.isprintable():
        return line
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in line
    )


class SelectorError(Exception):
    """A failure that the user can understand and act upon; never a defect of the selector.

    The text says what happened, the facts compared and what to do. Its first line stands alone.
    """

    exit_code = 2

    def lines(self) -> list[str]:
        """Return the text for a terminal: what a server said must not steer it."""
        return [printable(line) for line in str(self).split("\n")]


class InvalidNameError(SelectorError, ValueError):
    """A variant property, variant label or wheel file name that breaks its grammar."""


class VariantsJsonError(SelectorError, ValueError):
    """A `variant.json` or `-variants.json` that does not follow PEP 825 or PEP 850."""


class ManifestError(SelectorError, ValueError):
    """A `payload/manifest.json` that cannot be read or contradicts itself."""


class DecisionError(SelectorError, ValueError):
    """A `variant-decision.json` that cannot be read."""


class MachineFolderError(SelectorError, ValueError):
    """A folder that should hold a captured machine and does not."""


class SettingsError(SelectorError, ValueError):
    """A config setting or environment variable with an unknown name or value."""


class PayloadError(SelectorError):
    """A wheel whose bytes, file name or content differ from what the manifest promises."""

    exit_code = 1


class DownloadError(SelectorError):
    """A file that could not be had from where it should be, or that is not the promised one."""

    exit_code = 1


class TemporaryDownloadError(DownloadError):
    """A server or connection that failed in a way which may be over when it is tried again."""


class UnwritableError(DownloadError):
    """A file that is there, but for which the system has no room or place where it should go."""

    exit_code = 3


class NothingFitsError(SelectorError):
    """No variant of the project fits this machine, and a source build was not allowed."""

    exit_code = 1


class VariantMisfitError(SelectorError):
    """The variant which was asked for by name does not fit this machine."""

    exit_code = 1


class StrictnessError(SelectorError):
    """The choice is one that the user refuses: `require`, `on-unknown`, `on-fallback`."""

    exit_code = 1


class SourceBuildError(SelectorError):
    """The project's own build could not be started from the selector's sdist."""

    exit_code = 1


class EditableRefusedError(SelectorError):
    """An editable installation was asked of an sdist that only hands over finished wheels."""


class ReleaseError(SelectorError):
    """An index, folder or sdist that could not be read as a release of the project."""


class NotInstalledError(SelectorError):
    """A distribution that is not installed in this environment."""


class DamagedInstallationError(SelectorError):
    """A distribution that is installed and whose metadata cannot be read."""


class UsageError(SelectorError):
    """A command line that cannot be acted upon."""


class OutputError(SelectorError):
    """Standard output is closed, or what it leads to takes nothing more."""

    exit_code = 3
