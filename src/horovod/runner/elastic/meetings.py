"""Whether the ranks of an elastic job can connect with each other at all."""

from dataclasses import dataclass, field

_REPORTED = 3  # of what the ranks of a round have said; with many ranks it is mostly the same


@dataclass
class Meetings:
    """Counts the rounds in a row whose ranks could not connect, and how long that has gone on.

    A round that fails may be bad luck, as when one of its ranks is lost meanwhile, and is formed
    anew. Ranks that a firewall keeps apart would do so for ever.

    Attributes:
        timeout: seconds for which rounds may fail.
    """

    timeout: float
    _complaints: dict[int, str] = field(default_factory=dict)  # by rank, of the last round
    _failed: int = 0
    _since: float | None = None  # when the first of the rounds that failed was formed anew

    def failed(self, rank: int, host: str, trouble: str) -> None:
        """A rank of the last round says why it could not connect with the others."""
        self._complaints[rank] = f"Rank {rank} on {host}: {trouble.rstrip('.')}."

    def end_round(self, now: float) -> str | None:
        """All have left the last round, and the next may begin.

        Returns:
            Why it should not; None if it should.
        """
        complaints, self._complaints = self._complaints, {}
        if not complaints:
            self._failed = 0
            self._since = None
            return None
        self._failed += 1
        self._since = now if self._since is None else self._since
        if now < self._since + self.timeout:
            return None
        said = " ".join(complaints[rank] for rank in sorted(complaints)[:_REPORTED])
        return (
            f"The ranks could not connect with each other {self._failed} times in a row, for"
            f" {self.timeout:g} seconds (--elastic-timeout). {said}"
        )
