"""The folder of the installer that calls a hook."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from variantwheel_selector.installer_folder import installer_folder, own_folder

_HOOK = "import os; from variantwheel_selector.installer_folder import installer_folder as f; "
_HOOK += "print(f(os.environ))"
_INSTALLER = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_HOOK!r}], cwd='/')"


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="only Linux tells")
def test_the_parent_tells_and_not_the_shell_before_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INSTALLER],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PWD": "/usr", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=60,
    )
    assert done.stdout.strip() == str(tmp_path.resolve())


def test_the_shell_tells_where_the_system_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(path)

    monkeypatch.setattr(os, "readlink", refuse)
    assert installer_folder({"PWD": str(tmp_path)}) == str(tmp_path)
    for nothing in ("relative", "", str(tmp_path / "removed")):
        assert installer_folder({"PWD": nothing}) == ""


def test_the_own_folder_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert own_folder() == str(tmp_path)

    def refuse() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(os, "getcwd", refuse)
    assert own_folder() == ""
