"""Ranks that read and write each other's vectors where they are, from any size on or never."""

import json
import signal

import pytest

from collective.conftest import Launch


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("least", ["0", "1", "65536"])
def test_vectors_arrive_whole_however_they_are_copied(
    launch: Launch, ranks: int, least: str
) -> None:
    launched = launch(ranks, "single_copies.py", env={"HOROVOD_SINGLE_COPY_BYTES": least})
    assert launched.code == 0, launched.err
    assert [json.loads(launched.lines(rank)[0]) for rank in range(ranks)] == [[]] * ranks


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("call", ["refused", "unwritable"])
@pytest.mark.parametrize("barred", [["1"], ["0", "1"]])
def test_ranks_that_may_not_read_or_write_get_vectors_too(
    launch: Launch, ranks: int, call: str, barred: list[str]
) -> None:
    environment = {"HOROVOD_SINGLE_COPY_BYTES": "1"}
    launched = launch(ranks, "single_copies.py", call, *barred, env=environment)
    assert launched.code == 0, launched.err
    assert [json.loads(launched.lines(rank)[0]) for rank in range(ranks)] == [[]] * ranks


@pytest.mark.parametrize(("least", "reads"), [("0", False), ("1", True), ("8388609", False)])
def test_ranks_read_from_the_size_on_that_the_variable_says(
    launch: Launch, least: str, *, reads: bool
) -> None:
    """Who tries is ended."""
    environment = {"HOROVOD_SINGLE_COPY_BYTES": least}
    launched = launch(2, "single_copies.py", "killed", "0", "1", env=environment)
    assert launched.code == (128 + signal.SIGSYS if reads else 0), launched.err


@pytest.mark.parametrize("kind", ["allreduce", "broadcast"])
@pytest.mark.parametrize(("least", "writes"), [("65536", True), ("131072", False), ("0", False)])
def test_blocking_calls_write_from_twice_that_size_on(
    launch: Launch, kind: str, least: str, *, writes: bool
) -> None:
    """Vectors of 200 kB, where others would be brought to the fast lane. Who writes is ended."""
    environment = {"HOROVOD_SINGLE_COPY_BYTES": least}
    launched = launch(2, "single_copies.py", kind, "0", "1", env=environment)
    assert launched.code == (128 + signal.SIGSYS if writes else 0), launched.err


def test_a_size_that_is_none_is_refused(launch: Launch) -> None:
    launched = launch(2, "single_copies.py", env={"HOROVOD_SINGLE_COPY_BYTES": "some"})
    assert launched.code != 0
    assert "HOROVOD_SINGLE_COPY_BYTES='some' is not accepted" in launched.err
