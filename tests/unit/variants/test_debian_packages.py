"""Debian packages that are unpacked into a folder, where there is no Debian."""

from pathlib import Path

import pytest
from debian_packages import PackagesError, PackageSet, unpack

ROCM = PackageSet("trixie", "amd64", ("hipcc", "librccl-dev"))


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def test_without_apt_it_is_said_what_lacks(tmp_path: Path) -> None:
    with pytest.raises(PackagesError, match="apt-get is not there\nDebian and its like have apt"):
        unpack(ROCM, tmp_path / "system")


def test_what_was_unpacked_is_taken_as_it_is_unless_something_else_is_wanted(
    tmp_path: Path,
) -> None:
    (tmp_path / "system.packages").write_text(str(ROCM), encoding="utf-8")
    unpack(ROCM, tmp_path / "system")
    more = PackageSet("trixie", "amd64", (*ROCM.packages, "python3"))
    with pytest.raises(PackagesError):
        unpack(more, tmp_path / "system")
