"""Which of several failures a job reports."""

import queue

import pytest

from horovod.runner.job import Ended, Events, Supervision


@pytest.mark.parametrize(
    ("ended", "reported"),
    [
        ([Ended(0, 0), Ended(1, 0)], 0),
        ([Ended(0, 3), Ended(1, 1)], 3),
        ([Ended(0, 1), Ended(1, 7)], 1),  # rank 1 could not go on without rank 0
        ([Ended(0, 1), Ended(1, 137)], 137),
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
