"""The user's settings: what counts, where it came from, and what was passed over.

Most installations state nothing; then neither the keys nor the readers of values are imported.
"""

from __future__ import annotations

from collections.abc import Mapping

from variantwheel_selector.assumptions import NOTHING_ASSUMED, Assumed, Assumptions
from variantwheel_selector.config_paths import nothing_is_stated
from variantwheel_selector.record import field, record
from variantwheel_selector.typing_forms import Generic, TypeVar, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.profile import Profile
    from variantwheel_selector.setting_keys import Key

__all__ = ["ConfigSettings", "Setting", "Settings", "read_settings"]

T = TypeVar("T")

ConfigSettings = Mapping[str, object]


@record
class Setting(Generic[T]):
    """One setting that is not the default.

    Attributes:
        value: What it means; none where an empty text states that there is nothing of the kind.
        text: As it was written, without credentials.
        origin: Where it was written, in words.
        place: How important that place is; lower counts more.
    """

    value: T | None
    text: str
    origin: str
    place: int = 0


@record
class Settings:
    """What the user asked for.

    Attributes:
        stated: The settings that are not the default, by name.
        for_source: Config settings that are handed to the project's own build.
        notes: What was stated and does not count, in words, by name or variable.
        profiles: Machines to choose for instead of this one.
    """

    stated: Mapping[str, Setting[object]] = field(default_factory=dict)
    for_source: Mapping[str, object] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    profiles: tuple[Profile, ...] = ()

    def get(self, key: Key[T]) -> T | None:
        """Return the value of a setting, or none if it is not set."""
        found = self.stated.get(key.name)
        return None if found is None else cast("T | None", found.value)

    def choice(self, key: Key[str]) -> str:
        """Return the value of a setting with few accepted texts, by default the first."""
        return self.get(key) or key.choices[0]

    def origin(self, key: Key[T]) -> str:
        """Return where a setting came from, in words."""
        found = self.stated.get(key.name)
        return "the default" if found is None else found.origin

    @property
    def origins(self) -> dict[str, str]:
        """Where each setting came from that is not the default."""
        return {name: found.origin for name, found in self.stated.items()}

    @property
    def variant(self) -> str | None:
        """A label to install instead of the best one."""
        asked = self._text("variant")
        return asked.removesuffix("!") if asked else None

    @property
    def forced(self) -> bool:
        """Whether the label is installed even if it does not fit (`label!`)."""
        return self._text("variant").endswith("!")

    @property
    def source_build(self) -> str:
        """`never`, `allow` (when nothing fits) or `force`."""
        return self._text("source-build") or "never"

    @property
    def full_log(self) -> bool:
        """Whether the whole decision is printed."""
        return self._text("log") == "full"

    @property
    def assumptions(self) -> Assumptions:
        """Facts about the machine that the user states."""
        if not self.stated:
            return NOTHING_ASSUMED
        from variantwheel_selector import setting_keys as keys  # noqa: PLC0415 - see above

        return Assumptions(
            cuda=self._assumed(keys.ASSUME_CUDA),
            sm=self._assumed(keys.ASSUME_SM),
            gfx=self._assumed(keys.ASSUME_GFX),
            rocm=self._assumed(keys.ASSUME_ROCM),
            cpu=self._assumed(keys.ASSUME_CPU),
            libc=self._assumed(keys.ASSUME_LIBC),
        )

    def _text(self, name: str) -> str:
        found = self.stated.get(name)
        return "" if found is None else cast("str", found.value)

    def _assumed(self, key: Key[T]) -> Assumed[T] | None:
        found = self.stated.get(key.name)
        if found is None:
            return None
        origin = found.origin.partition(", taken for ")[0]
        return Assumed(cast("T | None", found.value), origin.removeprefix("environment variable "))

    def described(self) -> dict[str, str]:
        """Return what was stated, each with its origin, in words, for the record."""
        described = {
            name: f"{found.text or 'none'} ({found.origin})" for name, found in self.stated.items()
        }
        return described | dict(self.notes)


def read_settings(
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    project: str | None = None,
) -> Settings:
    """Join all places where settings are stated; reads configuration files and profiles.

    Config settings with other names are for the project's own build, so that they are accepted
    only when a source build is allowed, and never if they look like a misspelt setting.

    Args:
        config_settings: Of the PEP 517 hook.
        environment: Environment variables; they also tell where the files are.
        project: The project to be installed, which tables of the files may be about.

    Raises:
        SettingsError: A name or value is not known.
    """
    if nothing_is_stated(config_settings, environment, other_tools=True):
        return Settings()
    from variantwheel_selector.stated_settings import join_all  # noqa: PLC0415 - see above

    return join_all(config_settings, environment, project)
