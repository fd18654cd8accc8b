"""How commands reach the environment that a distribution is installed in."""

import json
import os
import site
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from horovod import _installation
from unit.selector.tiny_release import V3, release_info
from variantwheel_selector.install_place import InstallPlace, find_install_place
from variantwheel_selector.variants_json import render_variants_json

SELECTOR = Path(__file__).parents[3] / "selector/src"
_ASK = """\
import json, sys
from pathlib import Path
from variantwheel_selector.install_place import find_install_place
place = find_install_place(Path(sys.argv[1]))
print(json.dumps([place.pip, place.uv]))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without pip, as uv, Poetry and pipx make them."""
    folder = tmp_path_factory.mktemp("environments") / "an environment"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder


def _ask(environment: Path, location: Path, **variables: str) -> tuple[list[str], list[str]]:
    kept = {name: text for name, text in os.environ.items() if name != "VIRTUAL_ENV"}
    answer = subprocess.run(
        [environment / "bin/python", "-c", _ASK, location],
        env=kept | {"PYTHONPATH": str(SELECTOR)} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    pip, uv = json.loads(answer.stdout)
    return pip, uv


def _packages(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))


def _activated(environment: Path) -> Mapping[str, str]:
    path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
    return {"VIRTUAL_ENV": str(environment), "PATH": path}


def test_an_environment_that_is_not_active_is_named(environment: Path) -> None:
    pip, uv = _ask(environment, _packages(environment))
    python = str(environment / "bin/python")
    assert pip == ["pip", "--python", python, "install"]
    assert uv == ["uv", "pip", "install", "--python", python]


def test_its_own_pip_serves_it(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/__init__.py").touch()
    path = os.pathsep.join([str(SELECTOR), str(tmp_path)])
    pip, _ = _ask(environment, _packages(environment), PYTHONPATH=path)
    assert pip == [str(environment / "bin/python"), "-m", "pip", "install"]


def test_another_environment_that_is_active_is_not_taken(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin/pip"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    pip, uv = _ask(environment, _packages(environment), **_activated(tmp_path))
    assert "--python" in pip
    assert "--python" in uv


def test_the_active_one_needs_no_name(environment: Path) -> None:
    own = environment / "bin/pip"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    try:
        pip, uv = _ask(environment, _packages(environment), **_activated(environment))
    finally:
        own.unlink()
    assert (tuple(pip), tuple(uv)) == (InstallPlace().pip, InstallPlace().uv)


def test_a_folder_of_its_own_is_named(environment: Path, tmp_path: Path) -> None:
    pip, uv = _ask(environment, tmp_path)
    assert pip[-3:] == ["--upgrade", "--target", str(tmp_path)]
    assert uv[-2:] == ["--target", str(tmp_path)]


def test_packages_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(tmp_path))
    place = find_install_place(tmp_path)
    assert place.pip[-2:] == ("install", "--user")


def test_packages_of_the_system_seen_from_an_environment(environment: Path) -> None:
    base = Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))
    pip, uv = _ask(environment, base)
    assert "--target" not in [*pip, *uv]


@pytest.fixture
def site_with_horovod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that uv has installed the library into, before all others on the path."""
    folder = tmp_path / "horovod_variants-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: horovod-variants\nVersion: 0.1.0\n"
    )
    (folder / "INSTALLER").write_text("uv\n")
    (folder / "variant.json").write_text(render_variants_json(release_info([V3])))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_horovod_names_the_selectors_command(site_with_horovod: Path) -> None:
    command = _installation.repair_command()
    assert command.startswith("uv pip install ")
    assert f"--target {site_with_horovod} " in command
    assert _installation.label() == "x86_64_v3"
