"""File names of wheels, with PEP 825's variant label at their end."""

from __future__ import annotations

import itertools
import re

from variantwheel_selector.errors import InvalidNameError
from variantwheel_selector.model import check_label
from variantwheel_selector.project_name import escape_project, normalize_project
from variantwheel_selector.record import record, replace

__all__ = ["WheelName", "escape_project", "normalize_project"]

_ALPHANUMERIC = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_TAG = _ALPHANUMERIC | {"_"}
_WORD = _TAG | {"."}
_VERSION = _WORD | {"!", "+"}


@record
class WheelName:
    """The parts of `{distribution}-{version}(-{build})?-{python}-{abi}-{platform}(-{label})?.whl`.

    Attributes:
        build: The build tag, or the empty string.
        label: The variant label, or none for a plain wheel.
    """

    distribution: str
    version: str
    build: str
    python: str
    abi: str
    platform: str
    label: str | None = None

    @classmethod
    def from_str(cls, filename: str) -> WheelName:
        """Read a file name; a python tag never starts with a digit, a build tag always does.

        Raises:
            InvalidNameError: This is not the name of a wheel.
        """
        if not filename.endswith(".whl"):
            raise InvalidNameError(f"invalid wheel file name {filename!r}: must end in '.whl'")
        parts = filename.removesuffix(".whl").split("-")
        build = ""
        if len(parts) > 5 and parts[2][:1].isdigit():
            build = parts.pop(2)
        label = parts.pop() if len(parts) == 6 else None
        if len(parts) != 5:
            raise InvalidNameError(
                f"invalid wheel file name {filename!r}: expected "
                "NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM[-LABEL].whl"
            )
        for position, part in enumerate(parts):
            if not _fits(part, position):
                raise InvalidNameError(f"invalid wheel file name {filename!r}: part {part!r}")
        if parts[2][0].isdigit() or not _WORD.issuperset(build):
            raise InvalidNameError(
                f"invalid wheel file name {filename!r}: part {build or parts[2]!r}"
            )
        if label is not None:
            check_label(label)
        distribution, version, python, abi, platform = parts
        return cls(distribution, version, build, python, abi, platform, label)

    def __str__(self) -> str:
        build = f"-{self.build}" if self.build else ""
        label = f"-{self.label}" if self.label is not None else ""
        tag = f"{self.python}-{self.abi}-{self.platform}"
        return f"{self.distribution}-{self.version}{build}-{tag}{label}.whl"

    @property
    def dist_info(self) -> str:
        """The name of the `.dist-info` folder inside."""
        return f"{self.distribution}-{self.version}.dist-info"

    def with_label(self, label: str | None) -> WheelName:
        """Return the name with another label, or none."""
        return replace(self, label=None if label is None else check_label(label))

    def tags(self) -> tuple[str, ...]:
        """Return the tags that the compressed tag set stands for, such as `py3-none-any`."""
        return tuple(
            f"{python}-{abi}-{platform}"
            for python, abi, platform in itertools.product(
                self.python.split("."), self.abi.split("."), self.platform.split(".")
            )
        )

    def build_key(self) -> tuple[int, str]:
        """Return the build tag's sort key; the higher one is preferred."""
        found = re.match(r"[0-9]+", self.build)
        return (int(found[0]), self.build[found.end() :]) if found else (-1, "")

    def is_for(self, project: str, version: str) -> bool:
        """Tell whether the wheel belongs to a release, spellings of the name set aside."""
        same_version = self.version == version.replace("-", "_")
        return normalize_project(self.distribution) == normalize_project(project) and same_version


def _fits(part: str, position: int) -> bool:
    """Tell whether a part may stand at its place; no regular expression is worth compiling."""
    if not part:
        return False
    if position == 0:
        return _WORD.issuperset(part) and {part[0], part[-1]} <= _ALPHANUMERIC
    if position == 1:
        return _VERSION.issuperset(part)
    return all(tag and _TAG.issuperset(tag) for tag in part.split("."))
