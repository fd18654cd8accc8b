"""Judges a release for a machine under the user's settings: what hooks and `explain` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from variantwheel_selector.decision import Decision
from variantwheel_selector.errors import StrictnessError, VariantMisfitError
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import Manifest
from variantwheel_selector.providers import LevelCap, Support, release_support
from variantwheel_selector.providers.level_cap import NO_CAP
from variantwheel_selector.record import field, record, replace
from variantwheel_selector.resolve import Resolution, resolve
from variantwheel_selector.settings import Settings
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.variants_json import VariantsInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from variantwheel_selector.profile import Profile


@record
class Release:
    """The wheels of one version of a project.

    Attributes:
        project: Its name.
        version: Its version.
        variants: What each label needs.
        hashes: File names of the wheels to their sha256, if it is known.
        refused: Wheels that do not count although their tags may fit, each with the reason.
        yanked: Why its publisher took it back, as the index says; empty without a reason, none if
            it was not, and where nobody looked.
    """

    project: str
    version: str
    variants: VariantsInfo
    hashes: Mapping[str, str | None]
    refused: Mapping[str, str] = field(default_factory=dict)
    yanked: str | None = None

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Release:
        """Return the release that a selector sdist carries."""
        return cls(
            manifest.name,
            manifest.version,
            manifest.variants,
            {wheel.filename: wheel.sha256 for wheel in manifest.wheels},
        )


@record
class Selection:
    """A release judged for one machine.

    Attributes:
        release: The wheels.
        settings: What the user asked for.
        machine: The captured facts.
        support: What is supported, by namespace.
        tags: What the machine's Python accepts, best first.
        resolution: All candidates, and the winner.
        refusal: Why settings make this choice an error; empty if they do not.
    """

    release: Release
    settings: Settings
    machine: Machine
    support: Mapping[str, Support]
    tags: tuple[str, ...]
    resolution: Resolution
    refusal: str = ""

    @property
    def from_source(self) -> bool:
        """Whether the project is going to be built from source."""
        wanted = self.settings.source_build
        return wanted == "force" or (wanted == "allow" and self.resolution.winner is None)

    def decision(self, selector_version: str, index_options: Sequence[str] = ()) -> Decision:
        """Return what is recorded in the wheel.

        Args:
            selector_version: Of this selector.
            index_options: Where the installer takes packages from, as options of pip and uv.
        """
        winner = None if self.from_source else self.resolution.winner
        filename = winner.filename if winner else None
        facts = judged_machine(self.settings, self.machine).facts()
        for answer in self.support.values():
            facts |= answer.facts()
        return Decision(
            project=self.release.project,
            version=self.release.version,
            label=winner.label if winner else None,
            forced=self.resolution.forced and winner is not None,
            filename=filename,
            sha256=self.release.hashes[filename] if filename else None,
            settings=described_for(self.settings, self.machine),
            machine=facts,
            candidates=tuple(item.decided() for item in self.resolution.candidates),
            selector_version=selector_version,
            index_options=tuple(index_options),
        )


def select(
    release: Release,
    settings: Settings,
    machine: Machine,
    tags: Sequence[str] | None = None,
    *,
    strict: bool = True,
) -> Selection:
    """Judge a release for a machine under the user's settings.

    Args:
        release: The wheels.
        settings: What the user asked for.
        machine: The captured facts.
        tags: What the machine's Python accepts, best first; by default as its facts say.
        strict: Whether settings that make the choice an error raise it; otherwise the refusal is
            told by the result, which has no winner then.

    Raises:
        SettingsError: A pattern means nothing for this release.
        VariantMisfitError: The variant asked for does not fit.
        StrictnessError: The choice is one that the user's settings refuse.
    """
    narrowed = _narrowed(settings)
    if narrowed:
        from variantwheel_selector.narrowing import check_patterns  # noqa: PLC0415 - rarely needed

        check_patterns(settings, release.variants)
    machine = judged_machine(settings, machine)
    support = effective_support(release.variants, settings, machine)
    accepted = _accepted_tags(settings.profiles, machine, tags)
    resolution = resolve(release.variants, release.hashes, support, accepted, release.refused)
    if narrowed:
        from variantwheel_selector.narrowing import narrow  # noqa: PLC0415 - rarely needed

        resolution = narrow(resolution, settings)
    refusal = ""
    try:
        if settings.variant is not None:
            from variantwheel_selector.resolution import choose  # noqa: PLC0415 - rarely needed

            resolution = choose(resolution, settings.variant, forced=settings.forced)
        if narrowed:
            from variantwheel_selector.narrowing import check_strictness  # noqa: PLC0415 - as above

            check_strictness(resolution, settings)
    except (VariantMisfitError, StrictnessError) as error:
        if strict:
            raise
        refusal, resolution = str(error), replace(resolution, winner=None)
    return Selection(release, settings, machine, support, accepted, resolution, refusal)


def _narrowed(settings: Settings) -> bool:
    if not settings.stated:
        return False
    from variantwheel_selector.setting_keys import NARROWING  # noqa: PLC0415 - rarely needed

    return bool(NARROWING & settings.stated.keys())


def described_for(settings: Settings, machine: Machine) -> dict[str, str]:
    """Return what was stated, for the record; what has no effect on a machine is noted as such."""
    described = settings.described()
    if not settings.stated:
        return described
    from variantwheel_selector.other_family import without_effect  # noqa: PLC0415 - rarely needed

    machines = [profile.machine for profile in settings.profiles] or [machine]
    for name, why in without_effect(settings, [item.machine for item in machines]).items():
        described[name] += f": no effect, {why}"
    return described


def judged_machine(settings: Settings, machine: Machine) -> Machine:
    """Return the machine with the C library that the user states."""
    libc = settings.assumptions.libc
    return machine if libc is None else replace(machine, libc=libc.value)


def effective_support(
    info: VariantsInfo, settings: Settings, machine: Machine
) -> dict[str, Support]:
    """Return what a machine, or all of the user's profiles, support of a release's namespaces."""
    cap, assumptions = level_cap(settings, info), settings.assumptions
    if not settings.profiles:
        return release_support(info, machine, cap=cap, assumptions=assumptions)
    from variantwheel_selector.profile import intersect  # noqa: PLC0415 - rarely needed

    answers = {
        profile.name: release_support(info, profile.machine, cap=cap, assumptions=assumptions)
        for profile in settings.profiles
    }
    return {
        namespace: intersect({name: answer[namespace] for name, answer in answers.items()})
        for namespace in info.namespaces
    }


def level_cap(settings: Settings, info: VariantsInfo | None = None) -> LevelCap:
    """Return up to which CPU level variants are chosen.

    A stated `max-cpu-level` always holds, for the architectures that it names. The default is about
    automatic choices: whoever names a variant, or asks for a level with a pattern, may have more.
    """
    if not settings.stated:
        return LevelCap()
    from variantwheel_selector.setting_keys import MAX_CPU_LEVEL  # noqa: PLC0415 - rarely needed

    asked = settings.variant is not None
    if not asked and info is not None and _narrowed(settings):
        from variantwheel_selector.narrowing import level_asked_for  # noqa: PLC0415 - rarely needed

        asked = level_asked_for(settings, info)
    cap = NO_CAP if asked else LevelCap()
    stated = settings.get(MAX_CPU_LEVEL)
    if stated is None:
        return cap
    return cap.with_stated(stated, f"{MAX_CPU_LEVEL.name} ({settings.origin(MAX_CPU_LEVEL)})")


def _accepted_tags(
    profiles: Sequence[Profile], machine: Machine, tags: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the tags that this Python accepts, here and on the machines of all profiles."""
    accepted = tuple(tags) if tags is not None else supported_tags(machine)
    for profile in profiles:
        there = set(supported_tags(replace(profile.machine, python=machine.python)))
        accepted = tuple(tag for tag in accepted if tag in there)
    return accepted
