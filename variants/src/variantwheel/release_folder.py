"""A release folder: variant wheels and the `NAME-VERSION-variants.json` that speaks for them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from packaging.version import InvalidVersion, Version

from variantwheel.atomic_file import replace_file
from variantwheel.errors import ReleaseFolderError, WheelFormatError
from variantwheel.folder_lock import locked_folder
from variantwheel.labelling import VARIANT_JSON
from variantwheel.wheel_archive import read_wheel, wheel_name_of
from variantwheel_selector.errors import InvalidNameError, VariantsJsonError
from variantwheel_selector.record import replace
from variantwheel_selector.variants_json import (
    VariantsInfo,
    parse_variants_json,
    render_variants_json,
)
from variantwheel_selector.variants_merge import merge_variants_info
from variantwheel_selector.wheel_name import WheelName, escape_project, normalize_project

ANY_MACHINE = "any"
"""What the platform tag of a wheel without native code says."""
_VARIANTS_JSON = "-variants.json"


def variants_json_name(project: str, version: str) -> str:
    """Return the file name of a release's variants.json (PEP 825)."""
    return f"{escape_project(project)}-{version.replace('-', '_')}{_VARIANTS_JSON}"


def is_release_file(name: str, project: str) -> bool:
    """Tell whether a file's name is that of a wheel, sdist or variants.json of a project's release.

    >>> is_release_file("my_pkg-1.0-py3-none-any-null.whl.metadata", "My.Pkg")
    True
    >>> is_release_file("my_pkg-templates.tar.gz", "my-pkg")
    False
    """
    try:
        if name.endswith((".whl", ".whl.metadata")):
            wheel = WheelName.from_str(name.removesuffix(".metadata"))
            found, version = wheel.distribution, wheel.version
        elif name.endswith(".tar.gz"):
            found, _, version = name.removesuffix(".tar.gz").rpartition("-")
        elif name.endswith(_VARIANTS_JSON):
            found, _, version = name.removesuffix(_VARIANTS_JSON).rpartition("-")
        else:
            return False
        Version(version)
    except (InvalidNameError, InvalidVersion):
        return False
    return normalize_project(found) == normalize_project(project)


def machine_of(name: WheelName) -> str:
    """Return the machine of a wheel's first platform tag, such as `x86_64`, or `ANY_MACHINE`.

    >>> machine_of(WheelName.from_str("a-1-py3-none-manylinux_2_34_x86_64.whl"))
    'x86_64'
    """
    platform = name.platform.split(".")[0]
    return next(
        (item for item in ("x86_64", "aarch64", "arm64") if platform.endswith(f"_{item}")),
        platform.rpartition("_")[2],
    )


def superseded_wheels(wheel: Path) -> list[Path]:
    """Find wheels of the same release, label and machine beside a wheel, under another tag."""
    name = wheel_name_of(wheel)
    found: list[Path] = []
    for other in sorted(wheel.parent.glob("*.whl")):
        candidate = wheel_name_of(other)
        same = replace(candidate, platform=name.platform) == name
        if other != wheel and same and machine_of(candidate) == machine_of(name):
            found.append(other)
    return found


def read_variant_json(wheel: Path) -> VariantsInfo:
    """Read the variant.json inside a wheel.

    Raises:
        WheelFormatError: It is missing or wrong.
    """
    archive = read_wheel(wheel)
    data = archive.dist_info_file(VARIANT_JSON)
    try:
        return parse_variants_json(data, f"{wheel.name}: {VARIANT_JSON}")
    except VariantsJsonError as error:
        raise WheelFormatError(str(error)) from error


def update_variants_json(folder: Path, wheels: Iterable[Path], info: VariantsInfo) -> Path | None:
    """Write what some freshly built wheels need into the release's variants.json.

    Args:
        folder: The release folder.
        wheels: The fresh wheels, all of one release.
        info: What their labels stand for; replaces what the file said about these labels.

    Returns:
        The file, or none when there is no wheel.

    Raises:
        ReleaseFolderError: The file speaks of a release that does not go with this one.
    """
    releases = {
        (escape_project(name.distribution), name.version) for name in map(wheel_name_of, wheels)
    }
    if not releases:
        return None
    if len(releases) > 1:
        words = ", ".join(f"{name} {version}" for name, version in sorted(releases))
        raise ReleaseFolderError(f"{folder}: the wheels belong to several releases: {words}")
    file = folder / variants_json_name(*releases.pop())
    # Builds of other labels may write into the same folder at the same time.
    with locked_folder(folder, ".lock", lambda: None, stays=False):
        if file.is_file():
            info = _merge(file, info)
        replace_file(file, render_variants_json(info).encode())
    return file


def _merge(file: Path, info: VariantsInfo) -> VariantsInfo:
    try:
        known = parse_variants_json(file.read_bytes(), str(file))
        others = {label: v for label, v in known.variants.items() if label not in info.variants}
        return merge_variants_info([replace(known, variants=others), info])
    except VariantsJsonError as error:
        raise ReleaseFolderError(
            f"{file}: does not go with what was built now: {error}; "
            "build all variants anew into an empty folder"
        ) from error
