"""The hook `build_wheel`: judges the release for this machine and hands the winner over."""

from __future__ import annotations

import hashlib
import os
import sys

from variantwheel_selector.checked_wheel import hand_over_checked, outcome, prepared_members
from variantwheel_selector.decision import DECISION_FILE, Decision, render_decision
from variantwheel_selector.errors import (
    ManifestError,
    NothingFitsError,
    SourceBuildError,
)
from variantwheel_selector.front_end import index_options
from variantwheel_selector.hooks import project_here
from variantwheel_selector.installer_folder import installer_folder
from variantwheel_selector.manifest import MANIFEST_PATH, Manifest, PayloadWheel, parse_manifest
from variantwheel_selector.probe import probe
from variantwheel_selector.record import record
from variantwheel_selector.resolve import Candidate
from variantwheel_selector.selection import Release, Selection, select
from variantwheel_selector.settings import Settings, read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@record
class _Here:
    """The sdist in the current folder, judged for this machine."""

    manifest: Manifest
    manifest_text: bytes
    selection: Selection


def source_requirements(settings: Settings) -> list[str]:
    """Return the requirements of a source build, or none if a variant is taken."""
    here = _judge_here(settings)
    source = here.manifest.source
    return list(source.requires) if here.selection.from_source and source else []


def make_wheel(wheel_directory: str, config_settings: Mapping[str, object] | None) -> str:
    """Write the chosen wheel, or the one built from source, and return its file name.

    Raises:
        NothingFitsError: No variant fits and a source build was not allowed.
    """
    here = _judge_here(read_settings(config_settings, os.environ, project_here()))
    winner = here.selection.resolution.winner
    if here.selection.from_source:
        return _build_source(here, wheel_directory)
    if winner is None:
        raise _refusal(here)
    return _hand_over_winner(here, winner, wheel_directory)


def read_manifest() -> bytes:
    """Return the text of the manifest of the sdist in the current folder.

    Raises:
        ManifestError: There is none, or it cannot be read.
    """
    try:
        with open(MANIFEST_PATH, "rb") as file:  # noqa: PTH123 - pathlib takes time
            return file.read()
    except OSError as error:
        raise ManifestError(
            f"cannot read {MANIFEST_PATH}: {error.strerror}; this is no complete selector sdist"
        ) from error


def _judge_here(settings: Settings) -> _Here:
    text = read_manifest()
    manifest = parse_manifest(text)
    machine = probe(manifest.variants.namespaces)
    selection = select(Release.from_manifest(manifest), settings, machine)
    return _Here(manifest, text, selection)


def _hand_over_winner(here: _Here, winner: Candidate, folder: str) -> str:
    decision = _decision(here)
    payload = next(wheel for wheel in here.manifest.wheels if wheel.filename == winner.filename)
    filename = str(payload.name.with_label(None))
    if not _handed_over_checked(here, payload, decision, (folder, filename)):
        from variantwheel_selector.opened_wheel import hand_over_opened  # noqa: PLC0415 - rare

        hand_over_opened(here.manifest, payload, here.selection, decision, folder)
    name = here.manifest.name
    _write(outcome(name, winner.label, filename, forced=decision.forced))
    for setting, text in decision.settings.items():
        _write(f"{name}: {setting} = {text}\n")
    if here.selection.settings.full_log:
        from variantwheel_selector.explain import decision_lines  # noqa: PLC0415 - when asked for

        _write("".join(f"{line}\n" for line in decision_lines(decision)))
    return filename


def _write(text: str) -> None:
    """Write to the installer's log; what its encoding lacks, as in a path, must not fail."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, errors="backslashreplace").decode(encoding))


def _decision(here: _Here) -> Decision:
    options = index_options(os.environ, installer_folder(os.environ))
    return here.selection.decision(here.manifest.selector_version, options)


def _handed_over_checked(
    here: _Here, payload: PayloadWheel, decision: Decision, target: tuple[str, str]
) -> bool:
    """Write a wheel that need not be opened again; tell whether that was possible."""
    if not here.manifest.embedded or not _was_checked(here.manifest_text, payload.sha256):
        return False
    listed = (payload.name.dist_info, DECISION_FILE, render_decision(decision).encode("utf-8"))
    ranges = payload.ranges or ((0, payload.size),)
    try:
        return hand_over_checked(
            payload.path, ranges, (payload.size, payload.sha256), listed, target
        )
    except (OSError, ValueError, OverflowError):
        return False  # who opens the wheel says what is wrong


def _was_checked(manifest: bytes, sha256: str) -> bool:
    """Tell whether a wheel of the sdist in the current folder was found to agree with its manifest.

    Args:
        manifest: The manifest's bytes.
        sha256: Of the wheel, in hexadecimal.
    """
    try:
        checked = prepared_members().get("checked")
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(checked, dict):
        return False
    wheels = checked.get("wheels")
    same = checked.get("manifest") == hashlib.sha256(manifest).hexdigest()
    return same and isinstance(wheels, list) and sha256 in wheels


def _build_source(here: _Here, wheel_directory: str) -> str:
    from pathlib import Path  # noqa: PLC0415 - rarely needed

    from variantwheel_selector.source_archive import SOURCE_ARCHIVE  # noqa: PLC0415 - rarely needed
    from variantwheel_selector.source_build import build_from_source  # noqa: PLC0415
    from variantwheel_selector.wheel import add_decision  # noqa: PLC0415

    settings = here.selection.settings
    if here.manifest.source is None:
        from variantwheel_selector.setting_keys import SOURCE_BUILD  # noqa: PLC0415

        raise SourceBuildError(
            f"{settings.origin(SOURCE_BUILD)} asks for a source build, "
            f"but this sdist of {here.manifest.name} holds no sources"
        )
    folder = Path(wheel_directory).resolve()
    filename = build_from_source(
        Path(SOURCE_ARCHIVE).resolve(), here.manifest.source, folder, dict(settings.for_source)
    )
    add_decision(folder / filename, _decision(here))
    return filename


def _refusal(here: _Here) -> NothingFitsError:
    from variantwheel_selector.resolution import nothing_fits  # noqa: PLC0415 - rarely needed

    manifest, machine = here.manifest, here.selection.machine
    error = nothing_fits(manifest.name, manifest.version, here.selection.resolution)
    facts = machine.facts()
    advice = f"this is {facts['python']} on {machine.machine}, {facts['libc']}"
    if manifest.source is not None:
        from variantwheel_selector.setting_keys import SOURCE_BUILD  # noqa: PLC0415

        advice += (
            f"\nbuild it from source: set {SOURCE_BUILD.variable}=allow and install again, or with "
            f"pip 23.1 and newer: pip install -C {SOURCE_BUILD.name}=allow {manifest.name}"
        )
    return NothingFitsError(f"{error}\n{advice}")
