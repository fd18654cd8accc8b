"""Signals that end a launcher: none is lost, whichever thread it interrupts."""

import os
import queue
import signal
import subprocess
import sys
import threading

import pytest

from horovod.runner import signals
from horovod.runner.signals import Signalled, signals_as_events

PATIENCE = 60.0  # seconds
ROUNDS = 500  # of two signals at once; with handlers alone, one of two was lost after some 50

# A main thread that waits for a queue, and another thread that a signal may go to.
LAUNCHER = f"""
import queue, signal, subprocess, sys, threading
from horovod.runner.signals import signals_as_events
signal.signal(signal.SIGINT, signal.default_int_handler)
events = queue.SimpleQueue()
other = subprocess.Popen(["sleep", "600"])
threading.Thread(target=other.wait).start()
try:
    with signals_as_events(events.put):
        for _ in range({ROUNDS}):
            print("ready", flush=True)
            print(sorted(events.get(timeout={PATIENCE}).number for _ in range(2)), flush=True)
finally:
    other.kill()
"""


def test_of_two_signals_at_once_both_come() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdout is not None
        for _ in range(ROUNDS):
            assert launcher.stdout.readline() == "ready\n"
            launcher.send_signal(signal.SIGTERM)
            launcher.send_signal(signal.SIGINT)
            assert launcher.stdout.readline() == "[2, 15]\n"
    assert launcher.returncode == 0


@pytest.mark.parametrize(
    ("numbers", "seconds", "at_once"),
    [
        ([signal.SIGINT, signal.SIGINT, signal.SIGTERM], PATIENCE, [False, False, False]),
        ([signal.SIGINT, signal.SIGINT, signal.SIGTERM], 0.0, [False, True, True]),
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], 0.0, [False, False, False]),
        ([signal.SIGTERM, signal.SIGHUP], 0.0, [False, False]),
    ],
)
def test_who_asks_again_after_a_while_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
    numbers: list[signal.Signals],
    seconds: float,
    at_once: list[bool],
) -> None:
    monkeypatch.setattr(signals, "AGAIN_SECONDS", seconds)
    events: queue.SimpleQueue[Signalled] = queue.SimpleQueue()
    with signals_as_events(events.put):
        for number, said in zip(numbers, at_once, strict=True):
            os.kill(os.getpid(), number)
            assert events.get(timeout=PATIENCE) == Signalled(number, said)


def test_what_was_before_is_again_afterwards() -> None:
    events: queue.SimpleQueue[Signalled] = queue.SimpleQueue()
    before = signal.getsignal(signal.SIGTERM)
    threads = set(threading.enumerate())
    with signals_as_events(events.put):
        os.kill(os.getpid(), signal.SIGTERM)
        assert events.get(timeout=PATIENCE) == Signalled(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert set(threading.enumerate()) <= threads


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_as_events(lambda _: pytest.fail("it came")):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_handler_that_is_not_pythons_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []
    with monkeypatch.context() as context:
        # As Python says of a handler that the program has installed which embeds it.
        context.setattr(signal, "getsignal", lambda _: None)
        with signals_as_events(lambda _: None):
            context.undo()
            seen.append(signal.getsignal(signal.SIGTERM))
    assert seen == [before]


# Is interrupted when it has noted the first, second, ... thing that it has to undo.
INTERRUPTED = """
import contextlib, signal
from horovod.runner.signals import signals_as_events
signal.signal(signal.SIGINT, signal.default_int_handler)
note = contextlib.ExitStack.callback
def note_and_interrupt(stack, *words):
    global left
    note(stack, *words)
    left -= 1
    if left == 0:
        signal.raise_signal(signal.SIGINT)
contextlib.ExitStack.callback = note_and_interrupt
for left in range(1, 6):
    with contextlib.suppress(KeyboardInterrupt), signals_as_events(lambda _: None):
        pass
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_while_it_is_set_up_hangs_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("True\n" * 5, 0), done.stderr


def test_other_signals_reach_who_waited_for_them_before() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    outer = signal.set_wakeup_fd(writing)
    try:
        with signals_as_events(lambda _: pytest.fail("it came as an event")):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert os.read(reading, 1) == bytes([signal.SIGUSR1])
    finally:
        signal.set_wakeup_fd(outer)
        signal.signal(signal.SIGUSR1, before)
        os.close(reading)
        os.close(writing)


def test_no_signals_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with signals_as_events(lambda _: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
