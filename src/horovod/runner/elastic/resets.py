"""How often an elastic job has been formed anew, against the user's limit."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass
class Resets:
    """Counts the rounds after the first.

    A round that only adds newcomers without which the last one has begun, since they were still
    starting, is counted together with that: as if it had waited for them.

    Attributes:
        limit: None for as many as need be.
    """

    limit: int | None
    _count: int | None = None  # of the rounds after the first; None before that
    _members: frozenset[int] = frozenset()  # of the last round
    _expected: frozenset[int] = frozenset()  # newcomers without which it has begun

    def begin_round(self, members: Collection[int], starting: Collection[int]) -> str | None:
        """The next round may begin.

        Args:
            members: workers that take part.
            starting: newcomers that join later.

        Returns:
            Why it should not; None if it should.
        """
        joining = frozenset(members) - self._members
        only_joined = self._members <= frozenset(members) and joining <= self._expected
        if self._count is None:
            self._count = 0
        elif not (joining and only_joined):
            if self.limit is not None and self._count >= self.limit:
                return (
                    f"The job has been formed anew {self.limit} time{'s' * (self.limit != 1)},"
                    " which is the limit (--reset-limit)."
                )
            self._count += 1
        self._members, self._expected = frozenset(members), frozenset(starting)
        return None
