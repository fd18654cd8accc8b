"""Timelines of whole jobs: from the start on, at run time, of all ranks, of one that is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collective.launching import (
    LAUNCH_SECONDS,
    PATIENT_LAUNCHER,
    RANKS,
    Launched,
    clean_environment,
    horovodrun,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Launched]:
    folder = tmp_path_factory.mktemp("timeline")
    (folder / "later").mkdir()
    launched = horovodrun(
        *("-np", "2", "--timeline-filename", folder / "first.json", "--timeline-all-ranks"),
        *("python", RANKS / "record_and_lose_a_rank.py", folder),
        launcher=PATIENT_LAUNCHER,
    )
    return folder, launched


def _names(events: list[dict[str, Any]]) -> set[str]:
    return {event["args"]["name"] for event in events if event.get("name") == "process_name"}


def _slices(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events if event["ph"] == "B"]


def test_a_timeline_from_the_start_on_shows_every_rank(recorded: tuple[Path, Launched]) -> None:
    folder, launched = recorded
    processes: set[int] = set()
    for file, prefix in (("first.json", ""), ("first.rank1.json", "[1] ")):
        events = json.loads((folder / file).read_text())
        names = _names(events)
        assert {f"{prefix}allreduce.before 0", f"{prefix}allreduce.before 1"} < names, launched.err
        slices = _slices(events)
        assert slices.count("ALLREDUCE") == slices.count("SHM_ALLREDUCE") == 20
        assert slices.count("NEGOTIATE_ALLREDUCE") == 20
        assert "during" not in (folder / file).read_text()
        # The coordinator may already have heard of the barrier that the other rank waits in.
        shown = {event["pid"] for event in events}
        assert len(shown) >= 3
        assert not shown & processes, "the two can be shown together"
        processes |= shown


def test_recording_can_be_started_and_stopped(recorded: tuple[Path, Launched]) -> None:
    folder, launched = recorded
    for number in range(3):
        text = (folder / "later" / f"{number}.json").read_text()
        events = json.loads(text)
        assert f"allreduce.during {number}" in _names(events)
        assert "CYCLE_START" in text
        assert "before" not in text
        assert (folder / "later" / f"{number}.rank1.json").exists() == (number == 1)
    for rank in (0, 1):
        (ignored, unwritable, impossible, *_) = launched.lines(rank)
        assert "is ignored: a timeline is being written" in ignored
        assert "hvd.stop_timeline()" in ignored
        assert "no such folder" in unwritable
        assert unwritable.endswith("No such file or directory")
        assert "'no\\x00path': no path has a NUL in it" in impossible
    assert not list(folder.glob("second*"))


def test_a_killed_rank_leaves_what_viewers_show(recorded: tuple[Path, Launched]) -> None:
    folder, launched = recorded
    assert launched.code == 128 + 9
    assert any("rank 1" in line for line in launched.lines(0)), launched.out
    text = (folder / "last.rank1.json").read_text()
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert "[1] allreduce.the last but one" in _names(json.loads(text + "]"))
    assert "allreduce.the last but one" in _names(json.loads((folder / "last.json").read_text()))


def test_a_job_goes_on_without_a_timeline_that_cannot_be_written(tmp_path: Path) -> None:
    env = {"HOROVOD_TIMELINE": str(tmp_path / "none" / "t.json"), "HOROVOD_TIMELINE_ALL_RANKS": "1"}
    joins = "import horovod.array as hvd; hvd.init(); hvd.barrier()"
    launched = horovodrun("-np", "2", sys.executable, "-c", joins, env=env)
    assert launched.code == 0, launched.err
    for rank in (0, 1):
        (line,) = launched.lines(rank, "stderr")
        assert "horovod] the timeline '" in line
        assert line.endswith(
            ".json' cannot be written: No such file or directory; the job goes on without it"
        )


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_job_goes_on_where_the_disk_is_full_or_nobody_reads(pipe: Path) -> None:
    starts = f"""
import horovod.array as hvd
hvd.init()
hvd.barrier()
try: hvd.start_timeline({str(pipe)!r})
except OSError as error: print(error)
"""
    for file, fault in (
        ("/dev/full", "No space left on device; the job goes on without it"),
        (str(pipe), "No such device or address; the job goes on without it"),
    ):
        for variables in (
            {"HOROVOD_TIMELINE": file},
            {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": file},
        ):
            launched = horovodrun("-np", "2", sys.executable, "-c", starts, env=variables)
            assert launched.code == 0, launched.err
            (line,) = launched.lines(0, "stderr")
            assert f"'{file}' cannot be written: " in line
            assert line.endswith(fault)
            (said,) = launched.lines(0)
            assert said.endswith("cannot be written: No such device or address")


def test_a_pipe_gets_the_whole_timeline(pipe: Path) -> None:
    program = "import horovod.array as hvd; hvd.init(); hvd.barrier()"
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        # Opening it waits for the reader; what the job opens meets one that waits already.
        keeper = os.open(pipe, os.O_WRONLY)
        env = {"HOROVOD_TIMELINE": str(pipe)}
        launched = horovodrun("-np", "2", sys.executable, "-c", program, env=env)
        os.close(keeper)
        text, _ = reader.communicate(timeout=LAUNCH_SECONDS)
    assert launched.code == 0, launched.err
    assert not launched.err
    assert "BARRIER" in _slices(json.loads(text))


def test_the_end_of_a_job_does_not_wait_for_whoever_reads_its_timeline(pipe: Path) -> None:
    """Who keeps a pipe open without emptying it, as a viewer that was stopped."""
    program = f"""
import horovod.array as hvd, numpy
hvd.init()
if hvd.rank() == 0: hvd.start_timeline({str(pipe)!r})
for number in range(1000): hvd.allreduce(numpy.ones(1), name=str(number))
if hvd.rank() == 0:
    try: hvd.stop_timeline()
    except OSError as error: print(error)
"""
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        launched = horovodrun("-np", "2", sys.executable, "-c", program)
    finally:
        os.close(opened)
    assert launched.code == 0, launched.err
    (line,) = launched.lines(0)
    assert line.endswith(f"'{pipe}' cannot be written: nobody took what was written in time")


def test_reductions_of_shared_memory_are_shown_as_such(tmp_path: Path) -> None:
    program = """
import horovod.array as hvd, numpy
hvd.init()
array = hvd.shared_empty(100_000, numpy.float32)
for _ in range(20): hvd.allreduce_(array, name="where it is")
for _ in range(20): hvd.allreduce(array, name="copied")
"""
    file = tmp_path / "t.json"
    env = {"HOROVOD_TIMELINE": str(file)}
    launched = horovodrun("-np", "2", sys.executable, "-c", program, env=env)
    assert launched.code == 0, launched.err
    slices = _slices(json.loads(file.read_text()))
    assert slices.count("MAPPED_ALLREDUCE") == slices.count("SHM_ALLREDUCE") == 20


def test_files_whose_names_are_not_utf_8(tmp_path: Path) -> None:
    """As the names of files may be on Linux; Python has them in another form."""
    names = [
        os.fsdecode(bytes(tmp_path) + name) for name in (b"/\xff.json", b"/\xfe.csv", b"/\xfd")
    ]
    timeline, log, later = names
    program = (
        "import sys, horovod.array as hvd; hvd.init(); hvd.stop_timeline();"
        "hvd.start_timeline(sys.argv[1]); hvd.stop_timeline()"
    )
    variables = {"HOROVOD_TIMELINE": timeline, "HOROVOD_AUTOTUNE_LOG": log, "HOROVOD_AUTOTUNE": "1"}
    subprocess.run(
        [sys.executable, "-c", program, later],
        env={**clean_environment(), **variables},
        timeout=LAUNCH_SECONDS,
        check=True,
    )
    for name in names:
        assert Path(name).exists()
