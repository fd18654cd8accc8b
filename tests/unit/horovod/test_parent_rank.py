"""Which processes take the place of a rank that has started them."""

import functools
import importlib
import json
import multiprocessing
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horovod._parent_rank import ParentRank, read_parent_rank, tell_children, tell_no_children
from horovod._parents import parent_of
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


def read_all(
    *environments: dict[str, str], package: Any = multiprocessing, method: str = "spawn"
) -> list[ParentRank | None]:
    """What a process that multiprocessing has started reads in them."""
    with package.get_context(method).Pool(1) as pool:
        found: list[ParentRank | None] = pool.map(read_parent_rank, environments)
    return found


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


@pytest.fixture
def multiprocess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """This Python's multiprocessing under the name of the package that is a fork of it."""
    own = Path(multiprocessing.__file__).parent
    for file in own.rglob("*.py"):
        copy = tmp_path / "multiprocess" / file.relative_to(own)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(re.sub("(?<!_)multiprocessing", "multiprocess", file.read_text()))
    monkeypatch.syspath_prepend(tmp_path)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    yield importlib.import_module("multiprocess")
    for name in [name for name in sys.modules if name.partition(".")[0] == "multiprocess"]:
        del sys.modules[name]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_the_package_that_pickles_more_are_children_too(
    method: str, multiprocess: Any
) -> None:
    children = told(RANK_1)
    try:
        (place,) = read_all(children, package=multiprocess, method=method)
    finally:
        tell_no_children(children)
    assert place is not None
    assert place.rank == 1


in_server = functools.partial(read_all, method="forkserver")


def test_children_of_a_fork_server_have_the_place_that_their_rank_has_now() -> None:
    assert in_server(RANK_1) == [None]  # the server runs from here on, and has heard of no place
    told(RANK_1)
    (place,) = in_server(RANK_1)
    assert place is not None
    assert (place.process, place.rank, place.size) == (os.getpid(), 1, 3)
    moved = {**RANK_1, "HOROVOD_RANK": "0"}
    stale = told(moved)
    (place,) = in_server(moved)
    assert place is not None
    assert place.rank == 0
    tell_no_children(dict(stale))
    assert in_server(stale) == [None]


@pytest.fixture
def nameless() -> Iterator[None]:
    """Gives this process a name that is no text."""
    own = Path(f"/proc/{os.getpid()}/comm")
    name = own.read_bytes()
    own.write_bytes("fifteen bytes \u00e9".encode()[:15])
    yield
    own.write_bytes(name.rstrip())


@pytest.mark.usefixtures("nameless")
def test_a_rank_whose_name_is_no_text_is_found_by_a_fork_servers_children() -> None:
    assert in_server(RANK_1) == [None]
    told(RANK_1)
    (place,) = in_server(RANK_1)
    tell_no_children({})
    assert place is not None
    assert place.rank == 1
    assert parent_of(os.getpid()) == os.getppid()


def test_another_place_in_an_elastic_job_is_the_childs_too() -> None:
    first = {**RANK_1, "HOROVOD_ELASTIC": "1", "HOROVOD_ELASTIC_WORKER": "7"}
    assert in_server(first) == [None]
    told({**first, "HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"})
    (place,) = in_server(first)
    assert place is not None
    assert (place.rank, place.size) == (0, 2)
    tell_no_children({})
