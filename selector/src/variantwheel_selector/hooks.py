"""What the PEP 517 hooks do, in the folder of an unpacked selector sdist."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from variantwheel_selector.decision import Decision
from variantwheel_selector.errors import (
    EditableRefusedError,
    ManifestError,
    NothingFitsError,
    SourceBuildError,
)
from variantwheel_selector.machine import Machine
from variantwheel_selector.manifest import MANIFEST_PATH, Manifest, parse_manifest
from variantwheel_selector.payload import check_wheel, open_payload
from variantwheel_selector.probe import probe
from variantwheel_selector.providers import Support, release_support
from variantwheel_selector.resolve import Resolution, choose, nothing_fits, resolve
from variantwheel_selector.settings import SOURCE_BUILD, Settings, environment_name, read_settings
from variantwheel_selector.tags import supported_tags
from variantwheel_selector.wheel import add_decision, hand_over
from variantwheel_selector.wheel_name import escape_project

ConfigSettings = Mapping[str, object]


@dataclass(frozen=True)
class Selection:
    """A release judged for one machine."""

    manifest: Manifest
    settings: Settings
    machine: Machine
    tags: tuple[str, ...]
    support: Mapping[str, Support]
    resolution: Resolution

    @property
    def from_source(self) -> bool:
        """Whether the project is going to be built from source."""
        wanted = self.settings.source_build
        return wanted == "force" or (wanted == "allow" and self.resolution.winner is None)

    def decision(self) -> Decision:
        """Return what is recorded in the wheel."""
        winner = None if self.from_source else self.resolution.winner
        payload = next(
            (w for w in self.manifest.wheels if winner and w.filename == winner.filename), None
        )
        facts = self.machine.facts()
        for answer in self.support.values():
            facts |= answer.facts()
        return Decision(
            project=self.manifest.name,
            version=self.manifest.version,
            label=winner.label if winner else None,
            forced=self.resolution.forced and winner is not None,
            filename=payload.filename if payload else None,
            sha256=payload.sha256 if payload else None,
            machine=facts,
            candidates=tuple(item.decided() for item in self.resolution.candidates),
            selector_version=self.manifest.selector_version,
        )


def select(
    manifest: Manifest, settings: Settings, machine: Machine, tags: tuple[str, ...]
) -> Selection:
    """Judge a release for a machine under the user's settings.

    Raises:
        VariantMisfitError: The variant asked for does not fit.
    """
    # Who names a variant may have more than what is chosen automatically.
    capped = settings.variant is None
    support = release_support(manifest.variants, machine, capped=capped)
    filenames = [wheel.filename for wheel in manifest.wheels]
    resolution = resolve(manifest.variants, filenames, support, tags)
    if settings.variant is not None:
        resolution = choose(resolution, settings.variant, forced=settings.forced)
    return Selection(manifest, settings, machine, tags, support, resolution)


def wheel_requirements(config_settings: ConfigSettings | None) -> list[str]:
    """Return the requirements of a source build if there is going to be one."""
    settings = read_settings(config_settings, os.environ)
    if settings.source_build == "never":
        return []
    selection = _select_here(settings)
    source = selection.manifest.source
    return list(source.requires) if selection.from_source and source else []


def prepare_metadata(metadata_directory: str, config_settings: ConfigSettings | None) -> str:
    """Write METADATA from the sdist's PKG-INFO and return the name of the `.dist-info` folder."""
    read_settings(config_settings, os.environ)
    manifest = read_manifest(Path())
    name = f"{escape_project(manifest.name)}-{manifest.version}.dist-info"
    folder = Path(metadata_directory, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_bytes(Path("PKG-INFO").read_bytes())
    return name


def make_wheel(wheel_directory: str, config_settings: ConfigSettings | None) -> str:
    """Write the chosen wheel, or the one built from source, and return its file name.

    Raises:
        NothingFitsError: No variant fits and a source build was not allowed.
    """
    selection = _select_here(read_settings(config_settings, os.environ))
    decision = selection.decision()
    winner = selection.resolution.winner
    if selection.from_source:
        return _make_from_source(selection, Path(wheel_directory), decision)
    if winner is None:
        raise _refusal(selection)
    payload = next(w for w in selection.manifest.wheels if w.filename == winner.filename)
    with open_payload(Path("payload", payload.filename), payload) as file:
        check_wheel(file, payload, selection.manifest, selection.tags)
        filename = hand_over(file, payload.name, decision, Path(wheel_directory))
    how = " (forced)" if decision.forced else ""
    sys.stdout.write(f"{selection.manifest.name}: variant {winner.label}{how} -> {filename}\n")
    return filename


def make_sdist(sdist_directory: str) -> str:
    """Pack the unpacked sdist in the current folder and return the archive's name."""
    from variantwheel_selector.sdist import pack_sdist  # noqa: PLC0415 - rarely needed

    manifest = read_manifest(Path())
    return pack_sdist(Path(), manifest, Path(sdist_directory))


def refuse_editable() -> NoReturn:
    """Refuse an editable installation."""
    raise EditableRefusedError(
        "an editable installation is not possible: this sdist holds finished wheels\n"
        "install it without -e, or make an editable installation of the project's own checkout"
    )


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of an unpacked sdist.

    Raises:
        ManifestError: There is none, or it cannot be read.
    """
    try:
        text = (root / MANIFEST_PATH).read_bytes()
    except OSError as error:
        raise ManifestError(
            f"cannot read {MANIFEST_PATH}: {error.strerror}; this is no complete selector sdist"
        ) from error
    return parse_manifest(text)


def _select_here(settings: Settings) -> Selection:
    machine = probe()
    return select(read_manifest(Path()), settings, machine, supported_tags(machine))


def _make_from_source(selection: Selection, folder: Path, decision: Decision) -> str:
    from variantwheel_selector.source_build import (  # noqa: PLC0415 - rarely needed
        build_from_source,
    )

    source = selection.manifest.source
    if source is None:
        raise SourceBuildError(
            f"{selection.settings.origins[SOURCE_BUILD]} asks for a source build, "
            f"but this sdist of {selection.manifest.name} holds no sources"
        )
    filename = build_from_source(
        Path("source").resolve(), source, folder.resolve(), dict(selection.settings.for_source)
    )
    add_decision(folder / filename, decision)
    return filename


def _refusal(selection: Selection) -> NothingFitsError:
    manifest = selection.manifest
    error = nothing_fits(manifest.name, manifest.version, selection.resolution)
    python = selection.machine.python.interpreter
    advice = (
        f"this is {python} on {selection.machine.machine}, {selection.machine.libc or 'no glibc'}"
    )
    if manifest.source is not None:
        advice += (
            f"\nbuild it from source: pip install -C {SOURCE_BUILD}=allow {manifest.name}, "
            f"or set {environment_name(SOURCE_BUILD)}=allow"
        )
    return NothingFitsError(f"{error}\n{advice}")
