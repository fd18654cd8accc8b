"""Signals that ask a command to end: it ends in order, as on Ctrl-C, and leaves nothing behind."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = ("SIGTERM", "SIGHUP")


class EndedBySignal(KeyboardInterrupt):
    """A signal asked this process to end: whatever cleans up after Ctrl-C does after this."""

    def __init__(self, number: int) -> None:
        """Take the signal's number."""
        super().__init__(number)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Turn the signals that would end this process at once into `EndedBySignal` meanwhile.

    One that is ignored, as SIGHUP is under nohup, or that somebody else handles stays as it is.
    """
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> None:
        # Whoever ends a process often says so twice, and cleaning up must not be cut off.
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise EndedBySignal(number)

    try:
        for number in taken:
            signal.signal(number, end)
    except ValueError:
        # Only the main thread can: elsewhere the process is somebody else's.
        taken = []
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
