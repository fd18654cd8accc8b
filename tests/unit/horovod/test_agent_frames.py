"""What an agent says on its standard output, where others write too."""

import io
import os
import queue
import select
import sys
import threading
import time
from pathlib import Path

import pytest

from horovod.runner.output import STDOUT, STREAMS
from horovod.runner.remote import EXIT, GREETING, FrameWriter, Order, read_exit, read_frames
from horovod.runner.ssh import RemoteWorkers
from horovod.runner.ssh_options import SshOptions

PATIENCE = 60.0  # seconds until a test that hangs is given up


def frames_of(*said: tuple[int, str]) -> list[bytes]:
    """What is written for some outputs, and for an end with code 7."""
    reader, writer = os.pipe()
    parts = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        frames = FrameWriter(writer)
        assert pipe.read(len(GREETING)) == GREETING
        for rank, text in said:
            frames.output(rank, STDOUT, text.encode())
            parts.append(pipe.read(1 << 16))
        frames.exit(3, 7)
        parts.append(pipe.read(1 << 16))
        os.close(writer)
    return parts


@pytest.mark.parametrize(
    "stray", [b"1", b"12345678", b"\xff", b"\xff\xfeHVD", b"word\n" * 1000, bytes(range(256))]
)
def test_frames_are_found_between_strange_bytes(stray: bytes) -> None:
    first, second, end = frames_of((4, "one"), (5, "two"))
    kind = STREAMS.index(STDOUT)
    expected = [(kind, 4, b"one"), (kind, 5, b"two"), (EXIT, 3)]
    heard: list[bytes] = []
    pipe = io.BytesIO(stray + first + stray + second + stray + end + stray)
    *outputs, (last, rank, payload) = read_frames(pipe, heard.append)
    assert [*outputs, (last, rank)] == expected
    assert read_exit(payload) == 7
    assert heard[:3] == [stray] * 3
    # A frame that is broken is lost, and none after it.
    broken = io.BytesIO(first[:10] + stray + first + second)
    assert [payload for _, _, payload in read_frames(broken)][-1] == b"two"


def test_nothing_is_lost_where_the_output_does_not_wait() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    probe = os.dup(writer)
    texts = [bytes([number]) * (1 << 16) for number in range(8)]  # more than the pipe holds

    def write() -> None:
        frames = FrameWriter(writer)
        for text in texts:
            frames.output(4, STDOUT, text)
        frames.exit(4, 7)
        os.close(writer)

    writing = threading.Thread(target=write)
    writing.start()
    with os.fdopen(reader, "rb") as pipe:
        while writing.is_alive() and select.select([], [probe], [], 0)[1]:
            time.sleep(0.01)  # until the pipe is full
        os.close(probe)
        assert pipe.read(len(GREETING)) == GREETING
        *outputs, (kind, _, code) = read_frames(pipe)
    writing.join(PATIENCE)
    assert [text for _, _, text in outputs] == texts
    assert (kind, read_exit(code)) == (EXIT, 7)


PRINTING = """
import threading, time
def print_for_ever():
    while True:
        print("a word of the agent's\\n", end="", flush=True)  # at once: none is cut in two
        time.sleep(0.05)
threading.Thread(target=print_for_ever, daemon=True).start()
"""


@pytest.mark.parametrize("who", ["a login script", "the agent"])
@pytest.mark.parametrize("kubexec", [False, True])
def test_strange_output_fails_no_job(
    who: str,
    kubexec: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The worker says that it runs, and goes on when a strange word has been written.
    running, written = tmp_path / "running", tmp_path / "written"
    for fifo in (running, written):
        os.mkfifo(fifo)
    word = f"(read -r _ <{running}; printf 12345678; echo >{written}) &"
    strange = word if who == "a login script" else ""
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\n{strange}exec sh -c "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if who == "the agent":
        (tmp_path / "sitecustomize.py").write_text(PRINTING)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    said: list[str] = []
    messages: list[str] = []
    # Opened for reading and writing, which waits for nobody.
    ends_of_fifos = [os.open(fifo, os.O_RDWR) for fifo in (running, written)]

    def on_message(text: str) -> None:
        messages.append(text)
        if who == "the agent" and len(messages) == 1:
            os.write(ends_of_fifos[1], b"\n")

    work = (
        "for i in range(8):\n"
        "    print(i, flush=True)\n"
        "    if i == 3:\n"
        f"        print(file=open({str(running)!r}, 'w'), flush=True)\n"
        f"        open({str(written)!r}).readline()\n"
    )
    workers = RemoteWorkers(
        "elsewhere",
        SshOptions(None, None, str(program) if kubexec else None),
        Order(
            [sys.executable, "-S", "-c", work],
            os.sep,
            {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"},
            {4: {}},
        ),
        lambda _rank, _stream, data: said.append(data.decode()),
        lambda rank, code: ends.put((rank, code)),
        on_message,
    )
    workers.start()
    assert ends.get(timeout=PATIENCE) == (4, 0), messages
    assert "".join(said).split() == [*"01234567"]
    if who == "a login script":
        assert messages == ["elsewhere, from something beside the ranks: 12345678\n"]
    else:
        assert set(messages) == {"elsewhere: a word of the agent's\n"}
    workers.stop()
    for end in ends_of_fifos:
        os.close(end)


def test_an_output_that_cannot_be_passed_on_ends_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("threading.excepthook", lambda _arguments: None)
    ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def fail(_rank: int, _stream: str, _data: bytes) -> None:
        raise ValueError

    workers = RemoteWorkers(
        "elsewhere",
        SshOptions(None, None),
        Order(["sh", "-c", "echo word; exec sleep 600"], os.sep, {}, {4: {}}),
        fail,
        lambda rank, code: ends.put((rank, code)),
        lambda _text: None,
    )
    workers.start()
    assert ends.get(timeout=PATIENCE) == (4, 137)
    workers.stop()
