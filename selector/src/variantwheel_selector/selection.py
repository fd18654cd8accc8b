"""Judges a release for a machine under the user's settings: what hooks and `explain` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from variantwheel_selector.decision import Decision
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import Manifest
from variantwheel_selector.providers import Support, release_support
from variantwheel_selector.resolve import Resolution, choose, resolve
from variantwheel_selector.settings import Settings
from variantwheel_selector.variants_json import VariantsInfo


@dataclass(frozen=True)
class Release:
    """The wheels of one version of a project.

    Attributes:
        project: Its name.
        version: Its version.
        variants: What each label needs.
        hashes: File names of the wheels to their sha256, if it is known.
        refused: Wheels that do not count although their tags may fit, each with the reason.
    """

    project: str
    version: str
    variants: VariantsInfo
    hashes: Mapping[str, str | None]
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Release:
        """Return the release that a selector sdist carries."""
        return cls(
            manifest.name,
            manifest.version,
            manifest.variants,
            {wheel.filename: wheel.sha256 for wheel in manifest.wheels},
        )


@dataclass(frozen=True)
class Selection:
    """A release judged for one machine."""

    release: Release
    settings: Settings
    machine: Machine
    support: Mapping[str, Support]
    resolution: Resolution

    @property
    def from_source(self) -> bool:
        """Whether the project is going to be built from source."""
        wanted = self.settings.source_build
        return wanted == "force" or (wanted == "allow" and self.resolution.winner is None)

    def decision(self, selector_version: str) -> Decision:
        """Return what is recorded in the wheel."""
        winner = None if self.from_source else self.resolution.winner
        filename = winner.filename if winner else None
        facts = self.machine.facts()
        for answer in self.support.values():
            facts |= answer.facts()
        return Decision(
            project=self.release.project,
            version=self.release.version,
            label=winner.label if winner else None,
            forced=self.resolution.forced and winner is not None,
            filename=filename,
            sha256=self.release.hashes[filename] if filename else None,
            settings=self.settings.described(),
            machine=facts,
            candidates=tuple(item.decided() for item in self.resolution.candidates),
            selector_version=selector_version,
        )


def select(
    release: Release, settings: Settings, machine: Machine, tags: Sequence[str]
) -> Selection:
    """Judge a release for a machine under the user's settings.

    Args:
        release: The wheels.
        settings: What the user asked for.
        machine: The captured facts.
        tags: What the machine's Python accepts, best first.

    Raises:
        VariantMisfitError: The variant asked for does not fit.
    """
    # Who names a variant may have more than what is chosen automatically.
    capped = settings.variant is None
    support = release_support(
        release.variants, machine, capped=capped, assumptions=settings.assumptions
    )
    resolution = resolve(release.variants, release.hashes, support, tags, release.refused)
    if settings.variant is not None:
        resolution = choose(resolution, settings.variant, forced=settings.forced)
    return Selection(release, settings, machine, support, resolution)
