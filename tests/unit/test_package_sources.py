"""Settings of pip's that hold for uv too."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from package_sources import uv_variables

from dev_program import DEV, ROOT


def test_the_environment_outranks_files_and_install_outranks_global(tmp_path: Path) -> None:
    listed = f"""\
:env:.find-links='{tmp_path} /nosuch/folder https://f.example/'
global.cert='/certificates.pem'
global.extra-index-url='\\nhttps://b.example/\\nhttps://c.example/'
global.find-links='/elsewhere'
global.index-url='https://a.example/simple'
global.timeout='60'
install.index-url='https://d.example/simple'
uninstall.index-url='https://e.example/simple'
"""
    assert uv_variables(listed, {"SSL_CERT_FILE": "/mine.pem"}) == {
        "UV_DEFAULT_INDEX": "https://d.example/simple",
        "UV_INDEX": "https://b.example/ https://c.example/",
        "UV_FIND_LINKS": f"{tmp_path},https://f.example/",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


@pytest.mark.parametrize(
    "listed", ["", "global.timeout='60'\n", "global.find-links='/nosuch/folder'\n"]
)
def test_where_pip_takes_packages_from_nowhere_else_neither_does_uv(listed: str) -> None:
    assert uv_variables(listed, {}) == {}


def test_uv_finds_what_pip_is_pointed_at(tmp_path: Path) -> None:
    name = "lies_in_a_folder-1.0"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.dist-info/METADATA", "Name: lies-in-a-folder\nVersion: 1.0\n")
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nno-index = true\nfind-links = {tmp_path}\n")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    pip = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.check_output(pip, env=plain | {"PIP_CONFIG_FILE": str(settings)}, text=True)
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--no-config", "--dry-run"]
    variables = {"VIRTUAL_ENV": sys.prefix, "UV_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [*uv, "lies-in-a-folder"],
        env=plain | variables | uv_variables(listed, {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "+ lies-in-a-folder==1.0" in done.stderr, done.stderr


def test_dev_and_the_tests_have_one_nox_and_one_uv() -> None:
    pinned = re.findall(r'"((?:nox|uv)==[^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert set(pinned) == set(DEV.REQUIRED)
