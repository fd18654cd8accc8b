"""Numbers the starts of jobs that the launcher's ranks form, alike on all of them."""

import contextlib
import os
from collections.abc import Iterator

from horovod import _launcher_store


class Starts:
    """How often each list of ranks has been made a job, or tried to become one.

    The first rank of a list counts all its tries, and says of each when it is over: then nobody
    takes the address at which it waited for the present one. The others count starts that have
    succeeded, and pass over what is over. So ranks that come late, or try again after they have
    waited in vain, meet under the same number.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], int] = {}

    @contextlib.contextmanager
    def number(self, rank: int, ranks: tuple[int, ...]) -> Iterator[int]:
        """Yields the number under which ranks meet, for a block that returns when they have met.

        Args:
            rank: this one in the launcher's job.
            ranks: which of its ranks form the job; empty for all.

        Raises:
            HorovodInternalError: the launcher's store does not answer.
        """
        leads = rank == (ranks[0] if ranks else 0)
        number = self._next.get(ranks, 0)
        number = _launcher_store.tell_joined(os.environ, ranks, number)
        self._next[ranks] = number + 1 if leads else number
        try:
            yield number
        finally:
            if leads:
                _launcher_store.tell_over(os.environ, ranks, number)
        self._next[ranks] = number + 1
