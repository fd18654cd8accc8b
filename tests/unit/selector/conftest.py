"""Fixtures: a tiny project, released by hand."""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.selector.fault_server import Faults, faulty
from unit.selector.served_payload import Place
from unit.selector.tiny_release import NULL, V3, V4, TinyRelease, release_info
from variantwheel_selector import installed
from variantwheel_selector.install_place import InstallPlace


@pytest.fixture
def release(tmp_path: Path) -> TinyRelease:
    """A release of null, x86_64_v3 and x86_64_v4, for any machine and Python."""
    tiny = TinyRelease(tmp_path / "tiny_native-1.0", release_info([NULL, V3, V4]))
    for label in tiny.info.variants:
        tiny.add(label)
    return tiny


@pytest.fixture(autouse=True)
def _no_configuration_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the tests may have settings of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "no-site-config"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for packages that nothing else is installed in; the standard library is there."""
    site = tmp_path / "site"
    site.mkdir()
    library = sysconfig.get_path("stdlib")
    monkeypatch.setattr(sys, "path", [str(site), library, f"{library}/lib-dynload"])
    # Commands are compared as those of an activated environment; test_install_place has others.
    monkeypatch.setattr(installed, "find_install_place", lambda _: InstallPlace())
    return site


@pytest.fixture
def place(release: TinyRelease, tmp_path: Path) -> Iterator[Place]:
    release.publish(tmp_path / "site")
    faults = Faults(tmp_path / "site")
    (tmp_path / "home").mkdir()
    with faulty(faults) as address:
        yield Place(release, faults, address, tmp_path / "home")
