"""A plain wheel turned into a variant wheel: label, platform tag and variant.json."""

from __future__ import annotations

import dataclasses

from variantwheel.errors import WheelFormatError
from variantwheel.wheel_archive import WheelArchive
from variantwheel_selector.record import replace
from variantwheel_selector.variants_json import VariantsInfo, render_variants_json
from variantwheel_selector.wheel_name import WheelName

VARIANT_JSON = "variant.json"
"""The file in `.dist-info` that says what a wheel needs (PEP 825)."""


def label_wheel(
    archive: WheelArchive, label: str, info: VariantsInfo, platform: str | None
) -> WheelArchive:
    """Make the variant wheel of a plain one.

    Args:
        archive: What the build backend returned.
        label: The variant's label.
        info: What variants.json says about the release; the wheel gets its own label's part.
        platform: The new platform tag; none keeps the one that the backend gave.

    Returns:
        The wheel under its new name.

    Raises:
        WheelFormatError: The wheel has a label already, or its WHEEL file is wrong.
    """
    if archive.name.label is not None:
        raise WheelFormatError(
            f"{archive.name}: has the label {archive.name.label!r} already; "
            "the build backend has to return a plain wheel"
        )
    name = archive.name.with_label(label)
    if platform is not None:
        name = replace(name, platform=platform)
    files = dict(archive.files)
    files[f"{archive.dist_info}/WHEEL"] = _with_tags(archive.dist_info_file("WHEEL"), name)
    files[f"{archive.dist_info}/{VARIANT_JSON}"] = render_variants_json(info.only(label)).encode()
    return dataclasses.replace(archive, name=name, files=files)


def wheel_file_tags(data: bytes) -> list[str]:
    """Return the `Tag` lines of a WHEEL file."""
    lines = data.decode(errors="replace").splitlines()
    return [line.partition(":")[2].strip() for line in lines if line.lower().startswith("tag:")]


def _with_tags(data: bytes, name: WheelName) -> bytes:
    """Replace the tags of a WHEEL file by those of the file name, as installers expect."""
    try:
        lines = [line for line in data.decode().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise WheelFormatError(f"{name}: WHEEL: not UTF-8: {error}") from error
    if not any(line.startswith("Wheel-Version:") for line in lines):
        raise WheelFormatError(f"{name}: WHEEL: no Wheel-Version line")
    kept = [line for line in lines if not line.lower().startswith("tag:")]
    # The blank line would end the headers, were there any line after it.
    return "".join(
        f"{line}\n" for line in [*kept, *(f"Tag: {tag}" for tag in name.tags())]
    ).encode()
