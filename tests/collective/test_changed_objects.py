"""Pickled objects between hosts, with somebody on the way who changes them."""

import sys

from collective.launching import RANKS, horovodrun


def test_an_object_that_was_changed_between_hosts_is_not_unpickled() -> None:
    hosts = ("-np", "2", "-H", "localhost:1,127.0.0.1:1")
    launched = horovodrun(*hosts, sys.executable, RANKS / "changed_objects.py")
    assert launched.code == 0, launched.err
    for rank in (0, 1):
        whole, broadcast, gathered, total = launched.lines(rank)
        assert whole == "1 {'from': 0} [0, 1]"
        refusal = "the object of rank 0 has been changed on its way"
        assert broadcast.startswith(refusal) if rank else broadcast == "['text']"
        assert gathered.startswith(refusal)
        assert total == "2.0"
