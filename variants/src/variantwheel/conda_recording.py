"""The record of a conda package's variant: `variant.json` in its `.dist-info`, as in a wheel."""

from __future__ import annotations

from pathlib import Path

from variantwheel.atomic_file import replace_file
from variantwheel.errors import WheelFormatError
from variantwheel.labelling import VARIANT_JSON
from variantwheel.project import Project
from variantwheel.toml_table import read_toml
from variantwheel.wheel_archive import record_digest
from variantwheel_selector.variants_json import render_variants_json
from variantwheel_selector.wheel_name import escape_project, normalize_project

_ORIGIN = "direct_url.json"


def record_variant(site: Path, project: Project, label: str) -> Path:
    """Write `variant.json` beside an installed distribution, and list it in RECORD.

    `direct_url.json` goes: the folder that the package was built in means nothing elsewhere.

    Args:
        site: The `site-packages` folder that the project was installed into.
        project: The project, with the label's definition.
        label: The variant that was built.

    Returns:
        The file.

    Raises:
        DefinitionError: The label is not defined.
        WheelFormatError: The project is not installed there, or more than once.
    """
    text = render_variants_json(project.variants_info([label]))
    name = escape_project(distribution_name(project))
    found = sorted(site.glob(f"{name}-*.dist-info"))
    if len(found) != 1:
        raise WheelFormatError(
            f"{site}: needs exactly one {name}-*.dist-info, "
            f"has {', '.join(item.name for item in found) or 'none'}"
        )
    file = found[0] / VARIANT_JSON
    file.write_text(text, encoding="utf-8")
    (found[0] / _ORIGIN).unlink(missing_ok=True)
    record = found[0] / "RECORD"
    if record.is_file():
        data = text.encode()
        entry = f"{found[0].name}/{VARIANT_JSON},sha256={record_digest(data)},{len(data)}"
        replaced = tuple(f"{found[0].name}/{name}," for name in (VARIANT_JSON, _ORIGIN))
        with record.open(encoding="utf-8") as lines:
            kept = [line.rstrip("\n") for line in lines if not line.startswith(replaced)]
        replace_file(record, "".join(f"{line}\n" for line in [*kept, entry]).encode())
    return file


def distribution_name(project: Project) -> str:
    """Return the project's name, which is that of its distribution and of its conda package."""
    return normalize_project(
        read_toml(project.folder / "pyproject.toml").table("project").string("name")
    )
