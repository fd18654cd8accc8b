"""What an installed distribution tells about its variant: the files in its `.dist-info` folder."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

from variantwheel_selector.conda_installation import CondaInstallation, find_conda_installation
from variantwheel_selector.decision import DECISION_FILE, Decision
from variantwheel_selector.decision_reading import parse_decision
from variantwheel_selector.errors import (
    DamagedInstallationError,
    InvalidNameError,
    NotInstalledError,
)
from variantwheel_selector.header_fields import header_values
from variantwheel_selector.install_place import InstallPlace, find_install_place
from variantwheel_selector.record import record
from variantwheel_selector.redaction import without_credentials
from variantwheel_selector.variants_json import VariantsInfo, parse_variants_json
from variantwheel_selector.wheel_name import WheelName, normalize_project

VARIANT_FILE = "variant.json"
CONDA = "conda"
"""What INSTALLER says in conda packages, whichever client installed them."""


@record
class InstalledDistribution:
    """One installed distribution.

    Attributes:
        project: Its name.
        version: Its version.
        installer: The program that installed it, such as `pip`; empty if it did not say.
        variant: Its `variant.json`; none if it is no variant.
        decision: Its `variant-decision.json`; none if no selector chose it, as in conda packages,
            beside which that of an earlier installation by pip stays.
        origin: The URL of the sdist or wheel that was installed by its place (`direct_url.json`);
            empty if an index or folder was searched.
        conda: What conda recorded; none if another program installed it.
        tags: Those of its wheel, such as `py3-none-any`; none if they are not known.
        place: How it is reached by commands that install it anew.
    """

    project: str
    version: str
    installer: str
    variant: VariantsInfo | None
    decision: Decision | None
    origin: str = ""
    conda: CondaInstallation | None = None
    tags: tuple[str, ...] = ()
    place: InstallPlace = InstallPlace()


def selector_version() -> str:
    """Return the version of the installed selector; empty in a bare source checkout."""
    try:
        return importlib.metadata.version("variantwheel-selector")
    except importlib.metadata.PackageNotFoundError:
        return ""


def read_installed(name: str) -> InstalledDistribution:
    """Read an installed distribution.

    Raises:
        NotInstalledError: There is no such distribution in this environment.
        DamagedInstallationError: Its METADATA cannot be read.
        VariantsJsonError: Its `variant.json` is damaged.
        DecisionError: Its `variant-decision.json` is damaged.
    """
    try:
        distribution = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError) as error:
        raise NotInstalledError(f"{name!r} is not installed in this environment") from error
    return _read(distribution)


def installed_variants() -> tuple[list[str], list[DamagedInstallationError]]:
    """Return the names of all installed distributions that are variants, sorted.

    Returns:
        The names, and what is wrong with those whose METADATA cannot be read.
    """
    found: set[str] = set()
    damaged: list[DamagedInstallationError] = []
    for distribution in importlib.metadata.distributions():
        texts = [_read_text(distribution, name) for name in (VARIANT_FILE, DECISION_FILE)]
        if all(text is None for text in texts):
            continue
        try:
            metadata = _metadata(distribution)
        except DamagedInstallationError as error:
            damaged.append(error)
            continue
        # What an interrupted removal left behind has no metadata, hence no name.
        if metadata:
            found.add(normalize_project(metadata["Name"]))
    return sorted(found), damaged


def _read(distribution: importlib.metadata.Distribution) -> InstalledDistribution:
    metadata = _metadata(distribution)
    if not metadata or "Name" not in metadata or "Version" not in metadata:
        raise _damaged(distribution, "says no name and version")
    project, version = metadata["Name"], metadata["Version"]
    variant = _read_text(distribution, VARIANT_FILE)
    installer = (_read_text(distribution, "INSTALLER") or "").strip()
    decision = None if installer == CONDA else _read_text(distribution, DECISION_FILE)
    place = f"{project} {version}: "
    decided = None if decision is None else parse_decision(decision, place + DECISION_FILE)
    return InstalledDistribution(
        project=project,
        version=version,
        installer=installer,
        variant=None if variant is None else parse_variants_json(variant, place + VARIANT_FILE),
        decision=decided,
        origin=_origin(_read_text(distribution, "direct_url.json")),
        conda=find_conda_installation(normalize_project(project)) if installer == CONDA else None,
        tags=_tags(decided, _read_text(distribution, "WHEEL") or ""),
        place=find_install_place(Path(str(distribution.locate_file("")))),
    )


def _tags(decision: Decision | None, wheel_file: str) -> tuple[str, ...]:
    """Return the tags of the file name that the decision recorded, or those in `WHEEL`."""
    if decision is not None and decision.filename is not None:
        try:
            return WheelName.from_str(decision.filename).tags()
        except InvalidNameError:
            pass  # a damaged record; the wheel says it too
    return tuple(header_values(wheel_file.encode(), "Tag"))


def _origin(text: str | None) -> str:
    """Return the URL in a `direct_url.json`, as far as an installer takes it again (PEP 610)."""
    try:
        document = json.loads(text or "null")
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict) or "archive_info" not in document:
        return ""
    url = document.get("url")
    return without_credentials(url) if isinstance(url, str) and url.isprintable() else ""


def _metadata(distribution: importlib.metadata.Distribution) -> importlib.metadata.PackageMetadata:
    try:
        return distribution.metadata
    except UnicodeDecodeError as error:
        raise _damaged(distribution, "is not UTF-8") from error


def _damaged(distribution: importlib.metadata.Distribution, what: str) -> DamagedInstallationError:
    # Only the attribute tells the folder; pip cannot replace what it cannot read itself.
    folder = getattr(distribution, "_path", distribution.locate_file(""))
    return DamagedInstallationError(
        f"the installation in {str(folder)!r} is damaged: its METADATA {what}; remove that folder, "
        "and install the project anew"
    )


def _read_text(distribution: importlib.metadata.Distribution, name: str) -> str | None:
    """Return a file of the `.dist-info` folder; one that is not UTF-8 reads as empty text."""
    try:
        return distribution.read_text(name)
    except UnicodeDecodeError:
        return ""
