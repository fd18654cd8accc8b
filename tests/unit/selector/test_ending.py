"""Signals that end a command do so in order, where nobody has decided otherwise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from variantwheel_selector.cli.ending import EndedBySignal, ending_in_order

ENDING = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """What a program that a shell starts has."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _interrupted(number: signal.Signals, ended: list[str]) -> None:
    with ending_in_order():
        try:
            signal.raise_signal(number)
        finally:
            for other in ENDING:
                signal.raise_signal(other)
            ended.append("in order")


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_what_runs_and_a_second_one_does_not_cut_off_its_end(
    number: signal.Signals,
) -> None:
    ended: list[str] = []
    with pytest.raises(EndedBySignal) as error:
        _interrupted(number, ended)
    assert error.value.number == number
    assert ended == ["in order"]
    assert [signal.getsignal(each) for each in ENDING] == [signal.SIG_DFL] * 2


def test_what_ends_on_an_interruption_ends_on_these() -> None:
    with pytest.raises(KeyboardInterrupt), ending_in_order():
        signal.raise_signal(signal.SIGTERM)


def test_an_ignored_signal_stays_ignored() -> None:
    """So nohup starts a program."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ending_in_order():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_handler_of_the_program_that_calls_stays() -> None:
    got: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    with ending_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert got == [signal.SIGTERM]


def test_another_thread_leaves_the_signals_alone() -> None:
    found: list[object] = []

    def look() -> None:
        with ending_in_order():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]
