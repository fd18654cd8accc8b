"""An Ethernet switch in user space that delays and loses frames.

    frame_switch.py PORTS DELAY_MS LOSS

Makes TAP devices port0, port1, … in its network namespace, which may be moved to others. Takes
`cut N` and `mend N` on standard input; says `done` when the ports are there and after each order.
"""

import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA  # linux/if_tun.h
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_LONGEST_FRAME = 1 << 16


def open_port(name: str) -> int:
    """Makes a TAP device; it lives as long as the descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(
        descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI)
    )
    return descriptor


class Switch:
    """Frames wait in one queue: the delay is the same for all of them."""

    def __init__(self, ports: list[int], delay: float, loss: float) -> None:
        self._ports = ports
        self._delay = delay
        self._loss = loss
        self._random = random.Random(1)  # noqa: S311 - a reproducible plan
        self._places: dict[bytes, int] = {}
        self._cut: set[int] = set()
        self._queue: collections.deque[tuple[float, int, bytes]] = collections.deque()

    def run(self) -> None:
        """Forwards frames until standard input ends."""
        while True:
            wait = max(0, self._queue[0][0] - time.monotonic()) if self._queue else None
            orders = sys.stdin.fileno()
            readable, _, _ = select.select([*self._ports, orders], [], [], wait)
            for source in readable:
                if source == orders:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self._obey(line)
                else:
                    self._take(self._ports.index(source))
            self._deliver()

    def _obey(self, line: str) -> None:
        word, port = line.split()
        (self._cut.add if word == "cut" else self._cut.discard)(int(port))
        print("done", flush=True)  # noqa: T201 - that is the protocol

    def _take(self, port: int) -> None:
        for _ in range(64):
            try:
                frame = os.read(self._ports[port], _LONGEST_FRAME)
            except OSError:
                return  # no more, or the device is down
            self._places[frame[6:12]] = port
            if port not in self._cut and self._random.random() >= self._loss:
                self._queue.append((time.monotonic() + self._delay, port, frame))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, source, frame = self._queue.popleft()
            place = self._places.get(frame[:6])
            for port in range(len(self._ports)) if place is None else (place,):
                if port == source or port in self._cut:
                    continue
                try:
                    os.write(self._ports[port], frame)
                except OSError:
                    continue  # the device is down, or its queue is full: the frame is lost


def main() -> None:
    ports, delay_ms, loss = sys.argv[1:]
    descriptors = [open_port(f"port{index}") for index in range(int(ports))]
    print("done", flush=True)  # noqa: T201
    Switch(descriptors, float(delay_ms) / 1000, float(loss)).run()


if __name__ == "__main__":
    main()
