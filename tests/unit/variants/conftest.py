"""A release of the small project, built once for all tests that read it."""

from __future__ import annotations

import os
import shutil
import venv
from pathlib import Path

import pytest

from unit.variants.tiny_project import (
    TinyRelease,
    TinySite,
    copy_project,
    variantwheel,
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n`, let one process build the release."""
    for item in items:
        if "tiny_release" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("tiny_release"))


@pytest.fixture(scope="session")
def tiny_release(tmp_path_factory: pytest.TempPathFactory) -> TinyRelease:
    if os.uname().machine != "x86_64":
        pytest.skip("no AVX2 code is made on this kind of machine")
    folder = tmp_path_factory.mktemp("tiny")
    release = TinyRelease(copy_project(folder), folder / "release")
    variantwheel(
        "build", "--all", "-o", release.folder, "--project", release.project, "--no-isolation"
    )
    return release


@pytest.fixture(scope="session")
def tiny_site(tiny_release: TinyRelease, tmp_path_factory: pytest.TempPathFactory) -> TinySite:
    """The release as a maintainer publishes it: wheels, variants.json and selector sdist."""
    folder = tmp_path_factory.mktemp("published") / "release"
    shutil.copytree(tiny_release.folder, folder)
    site = folder.parent / "site"
    variantwheel("sdist", folder, "-o", folder, "--project", tiny_release.project, "--no-isolation")
    variantwheel("index", folder, "-o", site)
    return TinySite(folder, site)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An empty virtual environment."""
    folder = tmp_path / "env"
    venv.create(folder, with_pip=False)
    return folder


@pytest.fixture(scope="session")
def best_label() -> str:
    """What this machine runs, found without the code under test."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    wanted = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    return "x86_64_v3" if wanted <= set(flags) else "null"
