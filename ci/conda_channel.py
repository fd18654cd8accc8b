"""A throw-away conda channel that is being filled with packages; they say that they are no more."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import rattler_build

BUILD = "0_hostboot"
LICENCE = "LicenseRef-local-test-only"
SUMMARY = "stands in for conda-forge's package in a local test"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"lib/python{PYTHON}/site-packages"
SUBDIRS = ("linux-64", "linux-aarch64")
HERE = "linux-aarch64" if platform.machine() == "aarch64" else "linux-64"


class Channel:
    """A channel that is being filled."""

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder = folder
        self._work = work
        for subdir in ("noarch", *SUBDIRS):
            (folder / subdir).mkdir(parents=True, exist_ok=True)

    def add(
        self,
        name: str,
        version: str,
        build: str = BUILD,
        *,
        subdir: str = "noarch",
        depends: Sequence[str] = (),
        constrains: Sequence[str] = (),
        number: int = 0,
        files: Path | None = None,
    ) -> None:
        """Adds a package without run_exports."""
        rattler_build.assemble_package(
            name=name,
            version=version,
            target_platform=subdir,
            build_string=build,
            output_dir=self._folder / subdir,
            files_dir=files,
            files=None if files else [],
            depends=depends,
            constrains=constrains,
            build_number=number,
            noarch="generic" if subdir == "noarch" else None,
            license=LICENCE,
            summary=SUMMARY,
            compression_level=1,
        )

    def build(
        self,
        name: str,
        version: str,
        build: str,
        run_exports: dict[str, list[str]],
        *,
        subdir: str = "noarch",
        script: Sequence[str] = (),
        depends: Sequence[str] = (),
    ) -> None:
        """Builds a package with run_exports, which only a recipe can have."""
        linking = {
            "missing_dso_allowlist": ["*"],
            "overlinking_behavior": "ignore",
            "overdepending_behavior": "ignore",
            "binary_relocation": False,
        }
        noarch = {"noarch": "generic"} if subdir == "noarch" else {}
        recipe = {
            "schema_version": 1,
            "package": {"name": name, "version": version},
            "build": {
                "number": 0, "string": build, "dynamic_linking": linking, "script": [*script],
                **noarch,
            },
            "requirements": {"run": [*depends], "run_exports": run_exports},
            "about": {"license": LICENCE, "summary": SUMMARY},
        }  # fmt: skip
        file = self._work / f"{name}-{subdir}" / "recipe.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(recipe), encoding="utf-8")  # JSON is YAML
        target = HERE if subdir == "noarch" else subdir
        platforms = rattler_build.PlatformConfig(target_platform=target, build_platform=HERE)
        (variant,) = rattler_build.Stage0Recipe.from_file(file).render(
            rattler_build.VariantConfig({}), rattler_build.RenderConfig(platform=platforms)
        )
        variant.run_build(output_dir=self._folder, channels=[], no_include_recipe=True)
