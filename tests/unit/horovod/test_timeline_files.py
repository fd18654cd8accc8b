"""Which rank records to which file."""

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


def test_only_what_is_asked_for_is_recorded() -> None:
    one = {"HOROVOD_TIMELINE": "t.json"}
    assert _timeline.recorded_from_start({}, 0, 0) == ""
    assert _timeline.recorded_from_start({"HOROVOD_TIMELINE": "DYNAMIC"}, 0, 0) == ""
    assert _timeline.recorded_from_start(one, 0, 0) == "t.json"
    assert _timeline.recorded_from_start(one, 1, 0) == ""
    every = {**one, "HOROVOD_TIMELINE_ALL_RANKS": "1"}
    assert _timeline.recorded_from_start(every, 1, 0) == "t.rank1.json"
