"""A release of the small project, built once for all tests that read it."""

from __future__ import annotations

import os

import pytest

from unit.variants.tiny_project import TinyRelease, copy_project, variantwheel


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
