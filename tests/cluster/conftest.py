"""Fixtures: one Slurm for all tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.slurm_cluster import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm of three nodes that are this machine."""
    with tempfile.TemporaryDirectory(prefix="slurm") as folder, running_cluster(Path(folder)) as up:
        yield up
