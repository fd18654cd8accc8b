"""The benchmark's commands as docs/performance.md gives them, with few and small turns."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "allreduce.py"
FEW = ("--sizes", "4B,1KiB", "--rounds", "2")


def _run(*options: str) -> str:
    command = [sys.executable, str(BENCH), *FEW, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.torch
def test_the_table_has_a_row_for_each_size() -> None:
    printed = _run("--dtype", "bfloat16", "--transport", "tcp")
    assert "transport tcp" in printed
    rows = printed.split("quartiles\n")[1].splitlines()
    assert [row.split()[:2] for row in rows] == [["4", "B"], ["1", "KiB"]]


@pytest.mark.torch
def test_programs_get_the_turns_of_both_libraries() -> None:
    document = json.loads(_run("--json"))
    assert document["facts"]["transport"] == "shm"
    assert [size["nbytes"] for size in document["sizes"]] == [4, 1024]
    assert all(len(size["ours"]) == len(size["gloo"]) == 2 for size in document["sizes"])
