"""Addresses: which of them a store is reached at, and how they are written."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from horovod._placement import store_endpoints
from horovod.runner import network
from horovod.runner.network import (
    NetworkError,
    UnknownHostError,
    address_towards,
    choose_addresses,
    interface_address,
    listening_address,
    own_addresses,
    own_way_first,
)
from horovod.runner.rendezvous import RendezvousServer
from horovod.runner.store_client import StoreClient, StoreError

SECRET = bytes(range(32))


def test_ports_are_put_behind_addresses_of_both_kinds() -> None:
    assert store_endpoints("10.0.0.1", 9) == "10.0.0.1:9"
    assert store_endpoints("10.0.0.1, fd00::1,[fd00::2]", 9) == (
        "10.0.0.1:9,[fd00::1]:9,[fd00::2]:9"
    )


def test_a_job_on_one_host_listens_on_the_loopback() -> None:
    assert choose_addresses([], ["nosuch0", "lo"]) == ["127.0.0.1"]
    with pytest.raises(NetworkError, match="'nosuch0' has no address here"):
        choose_addresses([], ["nosuch0"])  # as its ranks would say one by one


def test_every_host_gets_an_address_on_its_way() -> None:
    assert choose_addresses(["127.0.0.2", "127.0.0.3"], []) == [
        address_towards("127.0.0.2"),
        *(
            []
            if address_towards("127.0.0.2") == address_towards("127.0.0.3")
            else [address_towards("127.0.0.3")]
        ),
    ]


def test_a_host_tries_the_address_on_its_own_way_first() -> None:
    way = address_towards("127.0.0.2")
    assert own_way_first("127.0.0.2", ["172.17.0.1", "fd00::1", way]) == [
        way, "172.17.0.1", "fd00::1",
    ]  # fmt: skip
    assert own_way_first("127.0.0.2", ["fd00::1", "172.17.0.1"]) == ["fd00::1", "172.17.0.1"]
    assert own_way_first("no.such.host.invalid", ["10.0.0.2", way]) == ["10.0.0.2", way]
    assert own_way_first("no.such.host.invalid", [way]) == [way]


def test_of_several_interfaces_those_that_exist_count() -> None:
    assert choose_addresses(["elsewhere"], ["nosuch0", "lo"]) == ["127.0.0.1"]
    with pytest.raises(NetworkError, match=r"'nosuch0' has no address here .* lo"):
        choose_addresses(["elsewhere"], ["nosuch0"])
    assert interface_address("lo") == "127.0.0.1"


def test_a_name_that_no_interface_can_have_is_not_cut_to_one_that_exists() -> None:
    for name in ("lo".ljust(16, "\0"), "a name of 16 b..", "\udcff", "\ud800"):
        with pytest.raises(NetworkError, match=r"has no address here \(No such device\); .* lo"):
            interface_address(name)


def test_interfaces_whose_names_are_no_text_keep_no_other_from_being_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = tmp_path / "if_inet6"
    rows = ["fd" + "0" * 29 + f"{i} 02 40 00 80  {name}\n" for i, name in enumerate("éx")]
    lines.write_bytes("".join(rows).encode("latin-1"))
    monkeypatch.setattr(network, "_IPV6_ADDRESSES", lines)
    assert interface_address("x") == "fd00::1"
    assert interface_address("\udce9") == "fd00::"


@pytest.mark.parametrize("name", ["no.such.host.invalid", "a..b", "a" * 64])
def test_an_unknown_host_is_named(name: str) -> None:
    with pytest.raises(UnknownHostError, match=f"no way to host '{name}'"):
        address_towards(name)


def test_a_host_without_a_name_here_may_find_each_address_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "127.0.0.1" not in own_addresses()
    assert "::1" not in own_addresses()
    hosts = ["127.0.0.2", "a.pod.invalid", "another.pod.invalid"]
    towards = address_towards("127.0.0.2")
    for own in (["10.0.0.1", "fd00::1"], [towards]):
        monkeypatch.setattr("horovod.runner.network.own_addresses", lambda own=own: own)
        assert choose_addresses(hosts, [], any_name=True) == list(dict.fromkeys([towards, *own]))
        assert choose_addresses(hosts, ["lo"], any_name=True) == ["127.0.0.1"]
        with pytest.raises(NetworkError, match=r"no way to host 'a\.pod\.invalid'"):
            choose_addresses(hosts, [])
    monkeypatch.setattr("horovod.runner.network.own_addresses", list)
    with pytest.raises(NetworkError, match=r"no way to host 'a\.pod\.invalid'"):
        choose_addresses(hosts, [], any_name=True)


def test_a_host_that_only_ssh_knows_is_asked_for_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("Host alpha.invalid\n  HostName 127.0.0.2\n")
    wrapper = tmp_path / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert address_towards("alpha.invalid") == address_towards("127.0.0.2")
    with pytest.raises(NetworkError, match="--network-interfaces"):
        address_towards("beta.invalid")


def test_several_addresses_are_listened_to_on_all_interfaces() -> None:
    assert listening_address(["10.0.0.1"]) == "10.0.0.1"
    assert listening_address(["10.0.0.1", "10.0.1.1"]) == "0.0.0.0"  # noqa: S104 - a text
    assert listening_address(["10.0.0.1", "fd00::1"]) == "::"


def test_the_store_answers_on_ipv6_and_on_the_first_address_that_works() -> None:
    with contextlib.closing(RendezvousServer(SECRET, "::")) as store:
        for address in ("::1", "127.0.0.1"):
            endpoints = store_endpoints(address, store.port)
            with contextlib.closing(StoreClient(f"127.0.0.1:1,{endpoints}", SECRET)) as client:
                client.put(b"key", address.encode())
                assert client.get(b"key", 1) == address.encode()
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1: .*; 127\.0\.0\.2:1: "):
        StoreClient("127.0.0.1:1,127.0.0.2:1", SECRET)
