"""Which of several failures a job reports."""

import queue
import signal

import pytest

from horovod.runner.job import Ended, Events, Supervision
from horovod.runner.signals import Signalled


@pytest.mark.parametrize(
    ("ended", "reported"),
    [
        ([Ended(0, 0), Ended(1, 0)], 0),
        ([Ended(0, 3), Ended(1, 1)], 3),
        ([Ended(0, 1), Ended(1, 7)], 1),  # rank 1 could not go on without rank 0
        ([Ended(0, 1), Ended(1, 137)], 137),
        ([Ended(0, 3), Ended(1, 255)], 3),  # sys.exit(-1): 127 is no signal
        ([Ended(0, 255), Ended(1, 137)], 137),
        ([Ended(0, 1), Ended(1, 255, lost=True)], 255),
        ([Ended(0, 255, lost=True), Ended(1, 137)], 255),
        ([Ended(0, 1), Ended(1, 1)], 1),
        ([Ended(0, 1), Ended(1, 0)], 1),
    ],
)
def test_a_failure_that_another_brought_about_is_not_reported(
    ended: list[Ended], reported: int
) -> None:
    events: Events = queue.SimpleQueue()
    for event in ended:
        events.put(event)
    supervision = Supervision([], events, {0, 1})
    assert supervision.wait() == reported
    first = next((event for event in ended if event.code == reported), None)
    assert supervision.failure == (first if reported else None)


class Deeds:
    """Workers that end when they are killed; notes what they are told."""

    def __init__(self, events: Events) -> None:
        self.told: list[str] = []
        self._events = events

    def start(self) -> None:
        raise AssertionError

    def stop(self) -> None:
        self.told.append("stop")

    def stop_one(self, _worker: int) -> None:
        raise AssertionError

    def kill(self) -> None:
        self.told.append("kill")
        self._events.put(Ended(0, 128 + signal.SIGKILL))

    gone = False


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        ([signal.SIGINT, signal.SIGPIPE], 130),
        ([signal.SIGPIPE, signal.SIGINT, signal.SIGTERM], 130),  # the reader has got it sooner
        ([signal.SIGHUP, signal.SIGHUP, signal.SIGPIPE], 129),
        ([signal.SIGTERM, signal.SIGINT], 143),
    ],
)
def test_workers_are_asked_once_to_end_until_somebody_does_not_wait(
    numbers: list[signal.Signals], code: int
) -> None:
    events: Events = queue.SimpleQueue()
    deeds = Deeds(events)
    for number in numbers:
        events.put(Signalled(number))
    events.put(Signalled(signal.SIGTERM, at_once=True))
    assert Supervision([deeds], events, {0}).wait() == code
    assert sorted(deeds.told) == ["kill", "stop"]
