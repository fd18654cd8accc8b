"""The ways in which a release can fail to be made, each with the exit code of its command line."""

from __future__ import annotations

from variantwheel_selector.errors import SelectorError


class ReleaseToolError(SelectorError):
    """A failure that the maintainer can understand and act upon; never a defect of the toolkit."""


class DefinitionError(ReleaseToolError, ValueError):
    """A variant definition or `[tool.variantwheel]` that cannot be acted upon."""


class ReleaseFolderError(ReleaseToolError, ValueError):
    """A release folder that holds what does not belong together."""


class WheelFormatError(ReleaseToolError, ValueError):
    """A file that should be a wheel and breaks the format."""

    exit_code = 1


class SdistFormatError(ReleaseToolError, ValueError):
    """A file that should be a source distribution and breaks the format."""

    exit_code = 1


class BuildFailedError(ReleaseToolError):
    """The project's own build did not succeed."""

    exit_code = 1


class SystemRefusedBuildError(BuildFailedError):
    """A program of the build was refused by the system, as on a full disk."""

    exit_code = 3


class IncompleteReleaseError(ReleaseToolError):
    """A release that lacks variants which its definitions promise."""

    exit_code = 1


class IndexConflictError(ReleaseToolError):
    """A file that is on the index already, with other bytes."""

    exit_code = 1


class CondaFormatError(ReleaseToolError, ValueError):
    """A file that should be a conda package and breaks the format."""

    exit_code = 1
