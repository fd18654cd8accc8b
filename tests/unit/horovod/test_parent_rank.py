"""Which processes take the place of a rank that has started them."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from horovod._parent_rank import ParentRank, read_parent_rank, tell_children, tell_no_children
from horovod._placement import read_placement

NAME = "HOROVOD_PARENT_RANK"
RANK_1 = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "3",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "9",
    "_HOROVOD_SECRET_KEY": "00" * 16,
}


def told(environment: dict[str, str]) -> dict[str, str]:
    """The environment of a rank's children."""
    inherited = dict(environment)
    placement = read_placement(environment)
    tell_children(inherited, placement, is_homogeneous=False, mpi_threads=None)
    return inherited


def read_all(*environments: dict[str, str]) -> list[ParentRank | None]:
    """What a process that multiprocessing has started reads in them."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return list(pool.map(read_parent_rank, environments))


def test_a_child_reads_what_its_rank_told_it() -> None:
    children = told(RANK_1)
    elsewhere = [
        {**children, "HOROVOD_RANK": "2"},
        {**children, "HOROVOD_SIZE": "2"},
        {**children, "HOROVOD_GLOO_RENDEZVOUS_PORT": "10"},
    ]
    place, *others = read_all(children, *elsewhere, told({}), RANK_1)
    assert place is not None
    assert (place.process, place.rank, place.size) == (os.getpid(), 1, 3)
    assert (place.is_homogeneous, place.mpi_threads) == (False, None)
    assert others == [None] * 5


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"rank": 1}', "1e999"])
def test_what_a_rank_has_not_written_is_nothing(text: str) -> None:
    assert read_all({**RANK_1, NAME: text}) == [None]


def test_a_program_that_a_rank_runs_and_the_rank_itself_are_no_children() -> None:
    children = told(RANK_1)
    assert read_parent_rank(children) is None
    place = {**json.loads(children[NAME]), "process": 1}
    assert read_parent_rank({**children, NAME: json.dumps(place)}) is None
    tell_no_children(children)
    assert children == RANK_1
