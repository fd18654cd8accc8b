"""GNU make's job server: several builds at once, and together no more jobs than there are cores.

Source: GNU make manual, "POSIX Jobserver", of the style `fifo`. Ninja 1.13 and make 4.4 take part.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_TOKEN = b"+"
_MOST = select.PIPE_BUF
"""Tokens; a pipe takes so many at once in any case, and would wait for a reader at some number."""


class JobTokens:
    """One token for each core; who runs a job holds one."""

    def __init__(self, fifo: Path, cores: int) -> None:
        """Make the job server.

        Args:
            fifo: Where its named pipe is made, anew.
            cores: How many jobs may run; of very many, some thousands.
        """
        cores = min(cores, _MOST)
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
        self._fifo = fifo
        self._cores = cores
        # Open for both: a pipe without a writer would end, one without a reader not open.
        self._pipe = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        os.write(self._pipe, _TOKEN * cores)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the builds have to know."""
        return {"MAKEFLAGS": f" -j{self._cores} --jobserver-auth=fifo:{self._fifo}"}

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold the token that every build has by running at all; waits for a free one."""
        token = os.read(self._pipe, 1)
        try:
            yield
        finally:
            os.write(self._pipe, token)

    def close(self) -> None:
        """Remove the pipe."""
        os.close(self._pipe)
        self._fifo.unlink(missing_ok=True)
