"""`horovodrun --check-build` reports the installation that it is part of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import horovod
from collective.launching import LAUNCH_SECONDS, clean_environment

# Which library is loaded when a build is tried out; the current folder comes first.
TRY_OUT = """
from horovod.runner.build_probe import RUNTIME
from horovod.runner.check_build import run_trial
trial = run_trial(RUNTIME)
print(trial.facts["library"] if trial.facts else trial.failure)
"""


@pytest.fixture
def other_installation(tmp_path: Path) -> Path:
    """A folder with this package, which is not the one that the interpreter finds by itself."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "horovod").symlink_to(Path(horovod.__file__).parent)
    return folder


def tried_out(*command: str, directory: Path, paths: str = "") -> str:
    """What a process with a `PYTHONPATH` says when it tries out its build."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**clean_environment(), "PYTHONPATH": paths},
        timeout=LAUNCH_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_relative_entry_of_the_path_is_meant_as_in_the_current_folder(
    other_installation: Path,
) -> None:
    directory, name = other_installation.parent, other_installation.name
    library = tried_out("-c", TRY_OUT, directory=directory, paths=f"absent{os.pathsep}{name}")
    assert library.startswith(f"{other_installation}{os.sep}horovod"), library


def test_the_current_folder_counts_where_the_package_comes_from_it(
    other_installation: Path, tmp_path: Path
) -> None:
    (tmp_path / "later").mkdir()
    (tmp_path / "later/horovod").symlink_to(other_installation / "horovod")
    later = str(tmp_path / "later")
    library = tried_out("-c", TRY_OUT, directory=other_installation, paths=later)
    assert library.startswith(f"{other_installation}{os.sep}horovod"), library


def test_a_scripts_folder_counts_where_the_package_comes_from_it(
    other_installation: Path, tmp_path: Path
) -> None:
    script = other_installation / "script.py"
    script.write_text(TRY_OUT)
    library = tried_out(str(script), directory=tmp_path)
    assert library.startswith(f"{other_installation}{os.sep}horovod"), library
