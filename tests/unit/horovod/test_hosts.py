"""Host lists and the places of ranks."""

import contextlib
import socket

import pytest

from horovod.runner.hosts import (
    HostInfo,
    HostsError,
    get_host_assignments,
    is_local,
    parse_hostfile,
    parse_hosts,
)
from horovod.runner.network import NetworkError, interface_address


def test_hosts_are_read_in_order() -> None:
    assert parse_hosts("a-1:2, b.example:3") == [HostInfo("a-1", 2), HostInfo("b.example", 3)]


def test_a_host_may_be_an_ipv6_address() -> None:
    assert parse_hosts("[fd00::1]:2,a:1") == [HostInfo("fd00::1", 2), HostInfo("a", 1)]
    assert parse_hostfile("[fd00::1] slots=2", "f") == [HostInfo("fd00::1", 2)]


def test_a_host_named_twice_has_the_slots_of_both() -> None:
    assert parse_hosts("a:2,b:1,a:3") == [HostInfo("a", 5), HostInfo("b", 1)]


def test_a_host_without_slots_is_left_out() -> None:
    assert parse_hosts("a:0,b:2") == [HostInfo("b", 2)]
    assert parse_hostfile("a slots=1\nb slots=0\n", "f") == [HostInfo("a", 1)]
    with pytest.raises(HostsError, match=r"Requested more processes \(1\) than .* slots \(0\)"):
        get_host_assignments(parse_hosts("a:0"), 1)


@pytest.mark.parametrize(
    "text", ["", "a", "a:", "a:x", "a:-1", "a:1,", "a:" + "9" * 5000, "-oProxy=x:1", "a b:1"]
)
def test_other_forms_are_refused_in_horovods_words(text: str) -> None:
    with pytest.raises(HostsError) as refusal:
        parse_hosts(text)
    assert str(refusal.value) == (
        "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2."
    )


def test_hostfile_may_have_blank_lines_and_comments() -> None:
    text = "# the rack\n\nnode-1 slots=2\n  node-2   slots = 4  # the new one\n"
    assert parse_hostfile(text, "hosts") == [HostInfo("node-1", 2), HostInfo("node-2", 4)]


def test_a_bad_line_of_a_hostfile_is_named() -> None:
    with pytest.raises(HostsError, match=r"rack\.txt, line 2: 'node-2 4' is not of the form"):
        parse_hostfile("node-1 slots=2\nnode-2 4\n", "rack.txt")


def test_an_empty_hostfile_is_refused() -> None:
    with pytest.raises(HostsError, match="names no host"):
        parse_hostfile("# nothing\n", "hosts")


def test_too_few_slots_are_refused_in_horovods_words() -> None:
    with pytest.raises(HostsError) as refusal:
        get_host_assignments([HostInfo("a", 1), HostInfo("b", 2)], 4)
    assert str(refusal.value) == ("Requested more processes (4) than there are available slots (3)")


def test_hosts_are_filled_in_their_order() -> None:
    slots = get_host_assignments([HostInfo("a", 2), HostInfo("b", 3)], 4)
    assert [(s.hostname, s.rank, s.local_rank, s.cross_rank) for s in slots] == [
        ("a", 0, 0, 0),
        ("a", 1, 1, 0),
        ("b", 2, 0, 1),
        ("b", 3, 1, 1),
    ]
    assert {(s.size, s.local_size, s.cross_size) for s in slots} == {(4, 2, 2)}


def test_uneven_hosts_have_uneven_columns() -> None:
    slots = get_host_assignments([HostInfo("a", 1), HostInfo("b", 3)], 4)
    assert [(s.local_size, s.cross_rank, s.cross_size) for s in slots] == [
        (1, 0, 2),
        (3, 1, 2),
        (3, 0, 1),
        (3, 0, 1),
    ]


def test_a_place_becomes_horovods_environment() -> None:
    (_, slot) = get_host_assignments([HostInfo("a", 2)], 2)
    assert slot.environment() == {
        "HOROVOD_HOSTNAME": "a",
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
    }


def test_only_this_host_is_local() -> None:
    assert is_local("localhost")
    assert is_local("127.0.0.1")
    assert not is_local("127.0.0.2")
    assert not is_local("node-1.invalid")
    assert is_local("[::1]") == socket.has_dualstack_ipv6()


def test_addresses_of_this_host_are_local() -> None:
    for _, name in socket.if_nameindex():
        with contextlib.suppress(NetworkError):
            assert is_local(interface_address(name))
    assert not is_local("192.0.2.123")  # of nobody: RFC 5737


def test_slots_that_are_not_used_cost_nothing() -> None:
    assert len(get_host_assignments(parse_hosts("a:999999999"), 2)) == 2
