"""A few seconds of what `./dev soak` does for minutes: each kind of fault once."""

import subprocess
import sys
from pathlib import Path


def test_random_operations_survive_every_kind_of_fault() -> None:
    program = Path(__file__).parent / "soak.py"
    done = subprocess.run(
        [sys.executable, program, "--episodes", "4", "--seconds", "1"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("4 episodes, all fine\n")
