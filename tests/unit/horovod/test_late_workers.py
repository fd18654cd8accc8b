"""Workers of a host whose name is being looked up: they can be ended, and failures are told."""

import queue
import signal
import threading
from collections.abc import Callable

import pytest

from horovod.runner.elastic.late_workers import LateWorkers
from horovod.runner.network import NetworkError
from horovod.runner.processes import CANNOT_START

PATIENCE = 60.0  # seconds until a test that hangs is given up
BY_SIGTERM = 128 + signal.SIGTERM


class Made:
    """Workers that note what is done to them."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.gone = False

    def start(self) -> None:
        self.calls.put("start")

    def stop(self) -> None:
        self.calls.put("stop")

    def stop_one(self, worker: int) -> None:
        self.calls.put(f"stop {worker}")

    def kill(self) -> None:
        self.calls.put("kill")


class Scene:
    """Workers 4 and 5, whose host's name is found when `found` is set."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.found = threading.Event()
        self.done = threading.Event()
        self.made = Made()
        self.ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self.errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self._error = error
        self.workers = LateWorkers(
            [4, 5], self._make, lambda *end: self.ends.put(end), self.errors.put
        )
        self.workers.start()

    def _make(self) -> Made:
        assert self.found.wait(PATIENCE)
        self.done.set()
        if self._error is not None:
            raise self._error
        return self.made

    def expect_ends(self, code: int) -> None:
        ends = [self.ends.get(timeout=PATIENCE) for _ in range(2)]
        assert ends == [(4, code), (5, code)]
        assert self.ends.empty()


@pytest.mark.parametrize(
    "end",
    [
        lambda workers: workers.stop(),
        lambda workers: workers.kill(),
        lambda workers: [workers.stop_one(worker) for worker in (4, 5)],
    ],
    ids=["stop", "kill", "each"],
)
@pytest.mark.parametrize("error", [None, NetworkError("unknown")])
def test_they_are_not_waited_for_until_their_host_is_found(
    end: Callable[[LateWorkers], object],
    error: BaseException | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scene = Scene(error)
    end(scene.workers)
    scene.expect_ends(BY_SIGTERM)
    assert scene.workers.gone
    scene.found.set()
    assert scene.done.wait(PATIENCE)
    end(scene.workers)
    assert scene.ends.empty()
    assert scene.made.calls.empty()
    assert capsys.readouterr().err == ""


def test_one_that_is_not_wanted_any_more_is_ended_when_it_can_be() -> None:
    scene = Scene()
    scene.workers.stop_one(5)
    assert scene.ends.empty()
    scene.found.set()
    assert [scene.made.calls.get(timeout=PATIENCE) for _ in range(2)] == ["start", "stop 5"]
    scene.workers.stop_one(4)
    scene.workers.stop()
    scene.workers.kill()
    told = [scene.made.calls.get(timeout=PATIENCE) for _ in range(3)]
    assert told == ["stop 4", "stop", "kill"]
    assert not scene.workers.gone
    scene.made.gone = True
    assert scene.workers.gone


def test_a_host_that_is_not_found_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(NetworkError("no way to host 'a'"))
    scene.found.set()
    scene.expect_ends(CANNOT_START)
    assert capsys.readouterr().err == "horovodrun: no way to host 'a'\n"
    assert scene.workers.gone


def test_what_goes_wrong_is_passed_on() -> None:
    scene = Scene(MemoryError())
    scene.found.set()
    assert isinstance(scene.errors.get(timeout=PATIENCE), MemoryError)
    scene.workers.kill()
    scene.expect_ends(BY_SIGTERM)
