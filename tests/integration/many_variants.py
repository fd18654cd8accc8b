"""A release with a variant for every kind of hardware, packed by hand, and places to install it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from integration.environments import ROOT, plain_variables, run
from unit.selector.gpu_release import PROVIDERS
from unit.selector.tiny_release import TinyRelease
from variantwheel.project import read_project
from variantwheel_selector.model import Variant
from variantwheel_selector.variants_json import VariantsInfo, render_variants_json

PROJECT = "tiny-native"
UV = Path(sys.executable).with_name("uv")


def _cuda(label: str, bound: str, *architectures: str) -> Variant:
    codes = [f"nvidia :: sm_arch :: {item}" for item in architectures]
    return Variant.from_strings(label, [f"nvidia :: cuda_version_lower_bound :: {bound}", *codes])


VARIANTS = (
    Variant("null"),
    Variant.from_strings("x86_64_v2", ["x86_64 :: level :: v2"]),
    Variant.from_strings("x86_64_v3", ["x86_64 :: level :: v3"]),
    Variant.from_strings("x86_64_v4", ["x86_64 :: level :: v4"]),
    Variant.from_strings("armv8_2", ["aarch64 :: version :: 8.2a"]),
    Variant.from_strings("neoverse", ["aarch64 :: version :: 8.4a"]),
    _cuda("cu11", "11.8", "60_real", "70_real", "80_real", "90_real"),
    _cuda("cu12", "12.0", "70_real", "80_real", "90_real", "90_virtual"),
    _cuda("cu13", "13.0", "75_real", "80_real", "90_real", "100_real", "120_real", "120_virtual"),
    Variant.from_strings(
        "rocm",
        ["amd :: rocm_version :: 6.3", "amd :: gfx_arch :: gfx90a", "amd :: gfx_arch :: gfx942"],
    ),
)
INFO = VariantsInfo(tuple(PROVIDERS), {item.label: item for item in VARIANTS}, PROVIDERS)
_X86, _ARM = "py3-none-manylinux_2_17_x86_64", "py3-none-manylinux_2_17_aarch64"
_TAGS = {
    "armv8_2": [_ARM],
    "neoverse": [_ARM],
    **{x: [_X86, _ARM] for x in ("null", "cu12", "cu13")},
}


_NETWORK = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True)
class ManyVariants:
    """The release in a folder, and served."""

    folder: Path
    site: Path
    index: str
    release: TinyRelease

    @property
    def sdist(self) -> Path:
        return self.folder / "tiny_native-1.0.tar.gz"


def own_release(folder: Path, work: Path) -> TinyRelease:
    """Make a release with the labels and properties of this repository's own definitions."""
    project = read_project(ROOT)
    platforms = {
        definition.label: [platform.machine for platform in definition.platforms]
        for definition in project.definitions
    }
    by_machine = {"x86_64": _X86, "aarch64": _ARM}
    tags = {
        label: [by_machine[machine] for machine in machines if machine in by_machine]
        for label, machines in platforms.items()
    }
    return make_release(folder, work, info=project.variants_info(platforms), tags=tags)


def make_release(
    folder: Path,
    work: Path,
    *,
    embedded: bool = True,
    info: VariantsInfo = INFO,
    tags: Mapping[str, list[str]] = _TAGS,
) -> TinyRelease:
    """Put wheels, variants.json and selector sdist into a release folder."""
    release = TinyRelease(work / "tiny_native-1.0", info)
    for label in info.variants:
        for release.tag in tags.get(label, [_X86]):
            shutil.copy(release.add(label), folder)
    release.embedded = embedded
    if embedded:
        release.share()
    else:
        shutil.rmtree(release.root / "payload")
    release.archive(folder)
    (folder / "tiny_native-1.0-variants.json").write_text(render_variants_json(info))
    return release


@dataclass(frozen=True)
class Home:
    """A user's home with the caches of pip and uv in it; environments are made beside it."""

    folder: Path

    def variables(self, env: Mapping[str, str] | None) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in plain_variables().items() if name not in _NETWORK}
        return {
            **kept, "HOME": str(home), "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "VARIANTWHEEL_CONFIG": os.devnull, **(env or {}),
        }  # fmt: skip

    def environment(self, name: str) -> Path:
        folder = self.folder / name
        if not folder.exists():
            venv.create(folder, symlinks=True)
        return folder

    def pip(
        self, name: str, *words: str | Path, expect: int = 0, env: Mapping[str, str] | None = None
    ) -> str:
        """Runs the newest pip on an environment."""
        command = (sys.executable, "-m", "pip", "--python", self.environment(name), *words)
        return run(*command, env=self.variables(env), expect=expect, timeout=120).stdout

    def uv(
        self, name: str, *words: str | Path, expect: int = 0, env: Mapping[str, str] | None = None
    ) -> str:
        """Runs `uv pip` on an environment; lines that uv wraps are whole in the result."""
        python = ("--python", self.environment(name))
        command = (UV, "pip", *words, *python)
        variables = self.variables({"UV_NO_CONFIG": "1", **(env or {})})
        printed = run(*command, env=variables, expect=expect, timeout=120).stdout
        return re.sub(r"\n {9}(?=\S)", " ", printed)

    def selector(
        self, name: str, *words: str | Path, expect: int = 0, env: Mapping[str, str] | None = None
    ) -> str:
        """Runs a verb of this checkout's selector inside an environment."""
        import variantwheel_selector  # noqa: PLC0415 - for its place alone

        package, *_ = variantwheel_selector.__path__
        import packaging  # noqa: PLC0415 - for its place alone

        path = os.pathsep.join(str(Path(item).parent) for item in (package, *packaging.__path__))
        command = (self.environment(name) / "bin/python", "-m", "variantwheel_selector", *words)
        variables = self.variables({"PYTHONPATH": path, **(env or {})})
        return run(*command, env=variables, expect=expect, timeout=60).stdout

    def dist_info(self, name: str) -> Path:
        (found,) = self.environment(name).glob("lib/python*/site-packages/tiny_native-*.dist-info")
        return found

    def label(self, name: str) -> str:
        """The label of what is installed, as its variant.json says it."""
        (label,) = json.loads((self.dist_info(name) / "variant.json").read_text())["variants"]
        return str(label)
