"""A rank in which MPI does not start in time ends, whoever reads what it says."""

import contextlib
import os
import subprocess
import sys

import pytest

PATIENCE = 60.0  # seconds until a test that hangs is given up
LATE = """
import signal
from horovod import _mpi_jobs
_mpi_jobs._GRACE = 0.0
with _mpi_jobs._ended_when_late(0.1):
    signal.pause()
"""


def ended(stderr: int) -> int:
    """The exit status of such a rank."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], stderr=stderr, timeout=PATIENCE, check=False
    )
    return done.returncode


@pytest.mark.parametrize("full", [False, True])
def test_a_late_rank_ends(*, full: bool) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if full:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    try:
        assert ended(writer) == 1
        said = b"" if full else os.read(reader, 4096)
    finally:
        os.close(reader)
        os.close(writer)
    assert full or said.startswith(b"horovod: MPI has not started within 0.1 seconds"), said
