"""The user's settings of an installation: config settings and environment variables.

The environment wins over config settings. Nothing is ignored: an unknown name or value is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from variantwheel_selector import assumptions as stated
from variantwheel_selector.errors import SettingsError
from variantwheel_selector.model import LABEL_PATTERN

ConfigSettings = Mapping[str, object]

ENVIRONMENT_PREFIX = "VARIANTWHEEL_"
VARIANT = "variant"
SOURCE_BUILD = "source-build"
SOURCE_BUILD_CHOICES = ("never", "allow", "force")

_NAMES = (VARIANT, SOURCE_BUILD)


@dataclass(frozen=True)
class Settings:
    """What the user asked for.

    Attributes:
        variant: A label to install instead of the best one.
        forced: Whether the label is installed even if it does not fit (`label!`).
        source_build: `never`, `allow` (when nothing fits) or `force`.
        origins: Where each setting that is not the default came from.
        for_source: Config settings that are handed to the project's own build.
        assumptions: Facts about the machine that the user states.
    """

    variant: str | None = None
    forced: bool = False
    source_build: str = "never"
    origins: Mapping[str, str] = field(default_factory=dict)
    for_source: Mapping[str, object] = field(default_factory=dict)
    assumptions: stated.Assumptions = stated.NOTHING_ASSUMED

    def described(self) -> dict[str, str]:
        """Return the settings that are not the default, each with its origin, in words."""
        values = {VARIANT: f"{self.variant}{'!' if self.forced else ''}"}
        values[SOURCE_BUILD] = self.source_build
        described = {name: f"{values[name]} ({origin})" for name, origin in self.origins.items()}
        return described | dict(self.assumptions.described)


def environment_name(setting: str) -> str:
    """Return the environment variable of a setting, such as `VARIANTWHEEL_SOURCE_BUILD`."""
    return ENVIRONMENT_PREFIX + setting.upper().replace("-", "_")


def read_settings(
    config_settings: ConfigSettings | None, environment: Mapping[str, str]
) -> Settings:
    """Join config settings and environment variables.

    Config settings with other names are for the project's own build, so that they are accepted
    only when a source build is allowed, and never if they look like a misspelt setting.

    Raises:
        SettingsError: A name or value is not known.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    others: dict[str, object] = {}
    for name, value in (config_settings or {}).items():
        if name not in _NAMES:
            others[name] = value
        elif isinstance(value, str):
            values[name], origins[name] = value, f"config setting {name!r}"
        else:
            raise SettingsError(f"config setting {name!r} is given more than once: {value!r}")
    variables = {environment_name(name): name for name in _NAMES}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in stated.VARIABLES:
            continue
        if variable not in variables:
            known = [*variables, *stated.VARIABLES]
            raise _unknown("environment variable", variable, known)
        # An empty variable is how shells and CI systems say that it is not set.
        if environment[variable]:
            name = variables[variable]
            values[name], origins[name] = environment[variable], f"environment variable {variable}"
    source_build = values.get(SOURCE_BUILD, "never")
    if source_build not in SOURCE_BUILD_CHOICES:
        raise SettingsError(
            f"{origins[SOURCE_BUILD]} is {source_build!r}; "
            f"accepted are {', '.join(SOURCE_BUILD_CHOICES)}"
            f"{_suggestion(source_build, SOURCE_BUILD_CHOICES)}"
        )
    for name in others:
        if source_build == "never" or _closest(name, _NAMES):
            raise _unknown("config setting", name, _NAMES)
    variant = values.get(VARIANT)
    forced = variant is not None and variant.endswith("!")
    if variant is not None:
        variant = variant.removesuffix("!")
        if not LABEL_PATTERN.fullmatch(variant):
            raise SettingsError(
                f"{origins[VARIANT]} is {values[VARIANT]!r}, which is no variant label; "
                f"labels match {LABEL_PATTERN.pattern}, '!' at the end forces one"
            )
        if source_build == "force":
            raise SettingsError(
                f"{origins[VARIANT]} and {origins[SOURCE_BUILD]} contradict each other: a build "
                "from source is no variant"
            )
    assumptions = stated.read_assumptions(environment)
    return Settings(variant, forced, source_build, origins, others, assumptions)


def _unknown(kind: str, name: str, known: Sequence[str]) -> SettingsError:
    return SettingsError(
        f"unknown {kind} {name!r}; known are {', '.join(known)}{_suggestion(name, known)}"
    )


def _suggestion(name: str, known: Sequence[str]) -> str:
    closest = _closest(name, known)
    return f" - did you mean {closest!r}?" if closest else ""


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that may have been meant, case and dashes set aside."""
    from difflib import get_close_matches  # noqa: PLC0415 - nothing is misspelt in most runs

    spelt = {item.replace("_", "-").lower(): item for item in known}
    close = get_close_matches(name.replace("_", "-").lower(), list(spelt), n=1)
    return spelt[close[0]] if close else None
