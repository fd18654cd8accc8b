"""Places where a command cannot do its work: the error says which and why, without a traceback."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words", ["explain tiny-native --index site", "build --all -o release", "matrix", "init"]
)
def test_a_current_folder_that_is_gone(tmp_path: Path, words: str) -> None:
    (tmp_path / "gone").mkdir()
    script = f"rmdir $PWD; {shlex.join([sys.executable, '-m', 'variantwheel_selector'])} {words}"
    done = subprocess.run(
        ["sh", "-c", script], check=False, capture_output=True, text=True, timeout=60,
        cwd=tmp_path / "gone",
    )  # fmt: skip
    told = "variantwheel: error: the current folder has been removed; change to one that is there\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize("name", ["m", "m.json"])
def test_capture_on_a_full_disk(tmp_path: Path, name: str) -> None:
    """No file may be longer than ten bytes, which stands in for a disk that is full."""
    run = "from variantwheel_selector.cli import run_commandline; sys.exit(run_commandline())"
    program = f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); {run}"
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, "capture", str(tmp_path / name)],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    told = f"variantwheel: error: {tmp_path / name}: File too large; make room there\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", told)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
