"""Which rank records to which file, and which job logs to which."""

import os
from pathlib import Path

import pytest

from horovod import _timeline


@pytest.mark.parametrize(
    ("path", "rank", "start", "file"),
    [
        ("a/trace.json", 0, 0, "a/trace.json"),
        ("a/trace.json", 2, 0, "a/trace.rank2.json"),
        ("a/trace.json", 0, 1, "a/trace.1.json"),
        ("a.b/trace", 3, 1, "a.b/trace.1.rank3"),
    ],
)
def test_no_two_recordings_share_a_file(path: str, rank: int, start: int, file: str) -> None:
    assert _timeline.file_of(path, rank, start) == file


def test_a_path_without_a_name_is_no_file() -> None:
    assert _timeline.file_of("/", 1) == "/"


def test_only_what_is_asked_for_is_recorded() -> None:
    one = {"HOROVOD_TIMELINE": "t.json"}
    assert _timeline.recorded_from_start({}, 0, 0) == ""
    assert _timeline.recorded_from_start({"HOROVOD_TIMELINE": "DYNAMIC"}, 0, 0) == ""
    assert _timeline.recorded_from_start(one, 0, 0) == "t.json"
    assert _timeline.recorded_from_start(one, 1, 0) == ""
    every = {**one, "HOROVOD_TIMELINE_ALL_RANKS": "1"}
    assert _timeline.recorded_from_start(every, 1, 0) == "t.rank1.json"


def test_the_autotuners_log_is_one_jobs() -> None:
    logged = {"HOROVOD_AUTOTUNE_LOG": "a/log.csv"}
    assert _timeline.autotune_log({}, 1, 2) == ""
    assert _timeline.autotune_log(logged, 0) == "a/log.csv"
    assert _timeline.autotune_log(logged, 1) == "a/log.1.csv"
    assert _timeline.autotune_log(logged, 0, 2) == "a/log.from2.csv"


def test_paths_come_as_text_bytes_or_objects() -> None:
    for given in ("a/t.json", b"a/t.json", Path("a/t.json")):
        assert _timeline.path_of(given) == "a/t.json"
    assert os.fsencode(_timeline.path_of(b"\xff")) == b"\xff"
    with pytest.raises(ValueError, match=r"no path has a NUL"):
        _timeline.path_of("a\0b")
    with pytest.raises(TypeError, match="not int"):
        _timeline.path_of(3)  # type: ignore[arg-type]
