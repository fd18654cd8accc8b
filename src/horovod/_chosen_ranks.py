"""Some of the launcher's ranks as a job of their own, which `init(comm=[...])` asks for."""

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import SupportsIndex

from horovod._placement import Placement


def read_ranks(given: Sequence[object]) -> tuple[int, ...]:
    """Reads a list of ranks.

    Args:
        given: as the caller of `init` has it; the order is that of the ranks in the new job.

    Raises:
        TypeError: something in it is no whole number.
        ValueError: a rank is negative or stands in it twice.
    """
    ranks = [operator.index(item) for item in given if isinstance(item, SupportsIndex)]
    if len(ranks) < len(given):
        other = next(item for item in given if not isinstance(item, SupportsIndex))
        raise TypeError(
            f"hvd.init(comm={list(given)!r}) needs numbers of ranks, and {other!r} is none; for"
            " several communicators, pass the first as comm and hvd.ProcessSet(communicator) for"
            " each of the others in process_sets"
        )
    negative = [rank for rank in ranks if rank < 0]
    if negative:
        raise ValueError(f"hvd.init(comm={ranks}): {negative[0]} is negative")
    twice = [rank for rank in ranks if ranks.count(rank) > 1]
    if twice:
        raise ValueError(f"hvd.init(comm={ranks}): rank {twice[0]} stands in the list twice")
    return tuple(ranks)


def choose(ranks: tuple[int, ...], rank: int, size: int) -> tuple[int, ...]:
    """Holds a list of ranks against the job.

    Args:
        ranks: the list, empty for all.
        rank: of this process in the launcher's job.
        size: number of the launcher's ranks.

    Returns:
        The list; empty if it stands for the whole job as it is.

    Raises:
        ValueError: this rank is not in it, or one that is there does not exist.
    """
    unknown = [other for other in ranks if other >= size]
    if unknown:
        raise ValueError(
            f"hvd.init(comm={list(ranks)}): there is no rank {unknown[0]} in this job of {size}"
        )
    if ranks and rank not in ranks:
        raise ValueError(
            f"hvd.init(comm={list(ranks)}): this process is rank {rank}, which is not in the list;"
            " only listed ranks may call it, the others call init() with a list of their own or not"
            " at all"
        )
    return () if ranks == tuple(range(size)) else ranks


def meeting_of(ranks: tuple[int, ...]) -> str:
    """What tells the names under which these ranks meet from those of others, and is short."""
    text = ",".join(map(str, ranks))
    return f"ranks-{hashlib.sha256(text.encode()).hexdigest()[:16]}/"


def place(placement: Placement, ranks: tuple[int, ...], hosts: Sequence[str]) -> Placement:
    """The placement of a rank in the job that a list of ranks forms.

    Args:
        placement: in the launcher's job.
        ranks: which of its ranks form the other.
        hosts: of these ranks, in the same order.
    """
    own = ranks.index(placement.rank)
    local_ranks = [hosts[:index].count(host) for index, host in enumerate(hosts)]
    peers = [index for index, local in enumerate(local_ranks) if local == local_ranks[own]]
    return replace(
        placement,
        rank=own,
        size=len(ranks),
        local_rank=local_ranks[own],
        local_size=hosts.count(hosts[own]),
        cross_rank=peers.index(own),
        cross_size=len(peers),
        meeting=meeting_of(ranks),
    )
