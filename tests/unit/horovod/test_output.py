"""Prefixes before lines of output, however the bytes arrive."""

import contextlib
import io
import os
import re
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod.runner.output import STDERR, STDOUT, LinePrefixer, Output, OutputError
from horovod.runner.streams import READERS, bytes_of, say


def prefix_all(chunks: list[bytes], prefix: str = "[0]<stdout>:") -> bytes:
    prefixer = LinePrefixer(prefix, timestamp=False)
    return b"".join(prefixer.feed(chunk) for chunk in chunks) + prefixer.close()


def test_each_line_has_the_prefix_and_the_last_one_an_end() -> None:
    assert prefix_all([b"one\ntw", b"o\n", b"part"]) == (
        b"[0]<stdout>:one\n[0]<stdout>:two\n[0]<stdout>:part\n"
    )


def test_empty_lines_are_kept() -> None:
    assert prefix_all([b"\n\na"], ">") == b">\n>\n>a\n"


def test_progress_bars_move() -> None:
    prefixer = LinePrefixer(">", timestamp=False)
    assert prefixer.feed(b"\r10%\r20%\r") == b">\r>10%\r"
    assert prefixer.feed(b"30%\n") == b">20%\r>30%\n"


def test_a_line_end_in_two_halves_is_one() -> None:
    assert prefix_all([b"one\r", b"\ntwo\r\n"], ">") == b">one\r\n>two\r\n"


def test_bytes_that_are_no_text_pass() -> None:
    assert prefix_all([b"\xff\x00\n"], ">") == b">\xff\x00\n"


def test_endless_lines_do_not_fill_the_memory() -> None:
    prefixer = LinePrefixer("", timestamp=False)
    assert prefixer.feed(b"x" * (1 << 21)) == b"x" * (1 << 21) + b"\n"


@given(st.lists(st.binary(max_size=8)))
def test_how_the_bytes_are_cut_does_not_matter(chunks: list[bytes]) -> None:
    assert prefix_all(chunks) == prefix_all([b"".join(chunks)])


def test_timestamps_have_horovods_form() -> None:
    prefixer = LinePrefixer("[0]<stderr>:", timestamp=True)
    line = prefixer.feed(b"x\n").decode()
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[0\]<stderr>:x\n", line)


def test_terminal_and_files(tmp_path: Path) -> None:
    terminal = {STDOUT: io.BytesIO(), STDERR: io.BytesIO()}
    output = Output(11, terminal, directory=tmp_path, timestamp=False)
    output.write(3, STDOUT, b"three\nrest")
    output.write(10, STDERR, b"ten\n")
    output.finish(3)
    output.close()
    assert terminal[STDOUT].getvalue() == b"[3]<stdout>:three\n[3]<stdout>:rest\n"
    assert terminal[STDERR].getvalue() == b"[10]<stderr>:ten\n"
    assert (tmp_path / "rank.03" / "stdout").read_bytes() == b"three\nrest"
    assert (tmp_path / "rank.10" / "stderr").read_bytes() == b"ten\n"


def test_nothing_is_kept_of_workers_that_have_ended() -> None:
    terminal = io.BytesIO()
    output = Output(1, {STDOUT: terminal, STDERR: terminal}, directory=None, timestamp=False)
    for worker in range(9):
        output.assign(worker, 0)
        output.write(worker, STDOUT, b"half a line")
        output.finish(worker)
    assert terminal.getvalue() == b"[0]<stdout>:half a line\n" * 9
    assert not output._prefixers


def test_a_single_rank_has_a_folder_too(tmp_path: Path) -> None:
    output = Output(1, {STDOUT: io.BytesIO()}, directory=tmp_path, timestamp=False)
    output.close()
    assert (tmp_path / "rank.0" / "stdout").read_bytes() == b""


def test_folders_of_ranks_have_the_digits_of_the_last_one(tmp_path: Path) -> None:
    for size, first in ((10, "rank.0"), (11, "rank.00"), (100, "rank.00"), (101, "rank.000")):
        folder = tmp_path / str(size)
        Output(size, {STDOUT: io.BytesIO()}, directory=folder, timestamp=False).close()
        assert min(path.name for path in folder.iterdir()) == first


@pytest.mark.parametrize("name", ["rank.0", "rank.0/stdout", "rank.0/stderr"])
def test_no_link_that_somebody_has_laid_is_followed(tmp_path: Path, name: str) -> None:
    theirs, out = tmp_path / "theirs", tmp_path / "out"
    theirs.mkdir()
    for stream in (STDOUT, STDERR):
        (theirs / stream).write_bytes(b"precious")
    link = out / name
    link.parent.mkdir(parents=True)
    link.symlink_to(theirs if name == "rank.0" else theirs / STDOUT)
    with pytest.raises(OutputError, match=rf"/out/{name} is a symbolic link, .*remove it, or"):
        Output(1, {}, directory=out, timestamp=False)
    assert [(theirs / stream).read_bytes() for stream in (STDOUT, STDERR)] == [b"precious"] * 2


def test_the_folder_for_all_copies_may_be_a_link_and_files_are_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    (tmp_path / "out").symlink_to(folder)
    (folder / "rank.0").mkdir(parents=True)
    (folder / "rank.0" / STDOUT).write_bytes(b"of the job before")
    terminal = {STDOUT: io.BytesIO(), STDERR: io.BytesIO()}
    output = Output(1, terminal, directory=tmp_path / "out", timestamp=False)
    output.write(0, STDOUT, b"new\n")
    output.close()
    assert (folder / "rank.0" / STDOUT).read_bytes() == b"new\n"
    assert (folder / "rank.0" / STDERR).stat().st_mode & 0o111 == 0


def test_a_full_disk_is_said_once_and_does_not_end_the_job() -> None:
    errors = io.BytesIO()
    with Path("/dev/full").open("wb", buffering=0) as full:
        output = Output(1, {STDOUT: full, STDERR: errors}, directory=None, timestamp=False)
        output.write(0, STDOUT, b"one\ntwo\n")
        output.write(0, STDOUT, b"three\n")
        output.write(0, STDERR, b"goes on\n")
    assert errors.getvalue() == (
        b"horovodrun: no more output goes to stdout: No space left on device\n[0]<stderr>:goes on\n"
    )


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Files take nothing more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_does_not_end_the_job_whatever_its_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"h\351")
    terminal = {STDOUT: io.BytesIO(), STDERR: io.BytesIO()}
    output = Output(1, terminal, directory=folder, timestamp=False)
    with no_room():
        output.write(0, STDOUT, b"one\n")
        output.write(0, STDOUT, b"two\n")
        output.close()
    assert terminal[STDOUT].getvalue() == b"[0]<stdout>:one\n[0]<stdout>:two\n"
    assert b"/h\\udce9/rank.0/stdout: File too large\n" in terminal[STDERR].getvalue()


@pytest.mark.parametrize("buffering", [0, -1], ids=["raw", "buffered"])
def test_a_pipe_that_does_not_block_gets_all_however_slow_its_reader_is(buffering: int) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    errors = io.BytesIO()
    line = b"x" * 99 + b"\n"
    got = bytearray()

    def read() -> None:
        while chunk := os.read(reading, 5000):
            got.extend(chunk)

    with os.fdopen(writing, "wb", buffering=buffering) as pipe:
        output = Output(1, {STDOUT: pipe, STDERR: errors}, directory=None, timestamp=False)
        reader = threading.Thread(target=read)
        threading.Timer(0.2, reader.start).start()  # by then the pipe is full
        output.write(0, STDOUT, line * 5000)
        output.write(0, STDOUT, b"end\n")
    reader.join()
    os.close(reading)
    assert errors.getvalue() == b""
    assert bytes(got) == b"[0]<stdout>:" + b"[0]<stdout>:".join([*[line] * 5000, b"end\n"])


def test_who_does_not_read_is_waited_for_until_the_job_is_to_end() -> None:
    reading, writing = os.pipe()
    errors = io.BytesIO()
    with os.fdopen(writing, "wb") as pipe, os.fdopen(reading, "rb"):
        output = Output(1, {STDOUT: pipe, STDERR: errors}, directory=None, timestamp=False)
        writer = threading.Thread(target=output.write, args=(0, STDOUT, b"x\n" * 50000))
        writer.start()
        writer.join(1.0)
        assert writer.is_alive()
        try:
            READERS.hurry(at_once=False)
            writer.join(1.0)
            assert writer.is_alive()
            READERS.hurry(at_once=True)
            writer.join()
        finally:
            READERS.take_time()
    assert errors.getvalue() == b"horovodrun: no more output goes to stdout: nobody reads it\n"


def test_what_comes_when_the_copies_are_closed_is_shown(tmp_path: Path) -> None:
    terminal = {STDOUT: io.BytesIO(), STDERR: io.BytesIO()}
    output = Output(1, terminal, directory=tmp_path, timestamp=False)
    output.write(0, STDOUT, b"kept\n")
    output.close()
    output.assign(0, 0)
    output.write(0, STDOUT, b"late\n")
    assert (tmp_path / "rank.0" / "stdout").read_bytes() == b"kept\n"
    assert terminal[STDOUT].getvalue() == b"[0]<stdout>:kept\n[0]<stdout>:late\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot keep the output in .*/file/out: .*Not a dir"):
        Output(1, {}, directory=tmp_path / "file" / "out", timestamp=False)


def test_a_stream_that_takes_text_alone_gets_text() -> None:
    shown = io.StringIO()
    sink = bytes_of(shown, sys.__stdout__)
    assert sink.write("é\r".encode() + b"\xff\n") == 5
    sink.flush()
    assert shown.getvalue() == "é\r\N{REPLACEMENT CHARACTER}\n"
    shown.close()
    with pytest.raises(OSError, match="closed file"):
        sink.write(b"more")
    sink.flush()


def test_a_scripts_own_stream_needs_no_more_than_write() -> None:
    class Kept:
        def __init__(self) -> None:
            self.words: list[str] = []

        def write(self, word: str) -> None:
            self.words.append(word)

    kept: Any = Kept()
    sink = bytes_of(kept)
    sink.write(b"word")
    sink.flush()
    assert kept.words == ["word"]


def test_what_was_written_to_a_stream_before_comes_first() -> None:
    shown = io.BytesIO()
    stream = io.TextIOWrapper(shown)
    stream.write("before ")
    bytes_of(stream).write(b"after")
    assert shown.getvalue() == b"before after"


def test_what_is_written_without_streams_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = bytes_of(None, None)
    assert nowhere.write(b"word") == 4
    assert nowhere.seek(0, io.SEEK_END) == 0
    monkeypatch.setattr(sys, "stderr", None)
    say("word")
    with Path(os.devnull).open() as unwritable:
        monkeypatch.setattr(sys, "stderr", unwritable)
        say("word")
