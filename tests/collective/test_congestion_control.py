"""How TCP shares the network: the user's choice, the system's, and none within a host."""

import json
from pathlib import Path

import pytest

from collective.conftest import Launch

NAME = "HOROVOD_TCP_CONGESTION_CONTROL"
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()


def test_ranks_of_one_host_are_not_paced(launch: Launch) -> None:
    launched = launch(2, "congestion_control.py", env={"HOROVOD_TRANSPORT": "tcp"})
    assert launched.code == 0, launched.err
    for rank in range(2):
        found = json.loads(launched.lines(rank)[0])
        assert len(found) >= 2
        assert set(found) == {"reno"}


@pytest.mark.parametrize("chosen", ALLOWED)
def test_connections_that_move_data_do_as_the_user_says(launch: Launch, chosen: str) -> None:
    environment = {"HOROVOD_TRANSPORT": "tcp", NAME: chosen}
    launched = launch(2, "congestion_control.py", env=environment)
    assert launched.code == 0, launched.err
    for rank in range(2):
        # One for each way of an operation: on the fast lane, and elsewhere.
        assert json.loads(launched.lines(rank)[0]).count(chosen) >= 2


def test_a_name_that_the_system_does_not_take_is_refused(launch: Launch) -> None:
    environment = {"HOROVOD_TRANSPORT": "tcp", NAME: "no-such"}
    launched = launch(2, "congestion_control.py", env=environment)
    assert launched.code != 0
    assert "the system does not take 'no-such'" in launched.err
    assert f"it allows: {' '.join(ALLOWED)} ({NAME})" in launched.err
