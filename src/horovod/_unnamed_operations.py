"""What a failed operation without a name says: where the ranks' programs have come to it."""

import contextlib
import hashlib
import re
import time

from horovod._call_site import call_site
from horovod._session import SESSION, Member
from horovod.common.exceptions import HorovodInternalError
from horovod.runner.store_client import StoreClient, StoreError

_MISMATCH = re.compile(r"^.*\(operation '\w+\.noname\.\d+', ranks (\d+) and (\d+)\)\n")
_PATIENCE_SECONDS = 5.0  # for other ranks to say where they are, which may not have asked for it
_LATER_SECONDS = 0.05  # likewise, when they have not said it before


def internal_error(text: str) -> HorovodInternalError:
    """Makes the exception of an operation that has failed on all its ranks.

    Operations without a name that do not agree often do not belong together, because one rank has
    started more of them than another. So the places are added at which the two ranks wait that the
    text names, and this one. They are exchanged through the job's store, and only now: operations
    that go well carry none.

    Args:
        text: of the core.
    """
    mismatch = _MISMATCH.match(text)
    member = SESSION.current
    if mismatch is None or member is None:
        return HorovodInternalError(text)
    own = call_site()
    named = {int(rank): "" for rank in mismatch.groups()}
    places = {**_places(member, text, own, list(named)), member.placement.rank: own}
    said = "; ".join(
        f"rank {rank} at {places.get(rank) or 'a place that it has not told'}"
        for rank in sorted({*named, member.placement.rank})
    )
    return HorovodInternalError(f"{text}\nCalled by {said}.")


def _places(member: Member, text: str, own: str, ranks: list[int]) -> dict[int, str]:
    """Where some ranks are that have failed alike, as far as they tell in time."""
    placement = member.placement
    if not placement.rendezvous:
        return {}
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    meeting = f"{placement.meeting}mismatch/{member.generation}/{digest}/"
    places: dict[int, str] = {}
    end = time.monotonic() + _PATIENCE_SECONDS
    with contextlib.suppress(StoreError, OSError):
        store = StoreClient(placement.rendezvous, placement.secret, _PATIENCE_SECONDS)
        with contextlib.closing(store):
            if placement.rank in ranks:
                store.put(f"{meeting}{placement.rank}".encode(), own.encode())
            for rank in ranks:
                late = rank in member.silent
                patience = _LATER_SECONDS if late else max(end - time.monotonic(), 0)
                value = store.get(f"{meeting}{rank}".encode(), patience)
                if value is None:
                    member.silent.add(rank)
                    continue
                member.silent.discard(rank)
                places[rank] = value.decode(errors="replace")
    return places
