"""The address at which other hosts can reach this one."""

import contextlib
import errno
import fcntl
import ipaddress
import itertools
import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horovod._settings import INTERFACE

_LOOPBACKS = ("127.0.0.1", "::1")
_SIOCGIFADDR = 0x8915  # linux/sockios.h: get an interface's address
_LONGEST_INTERFACE = 15  # bytes of its name; linux/if.h: IFNAMSIZ, with the zero that ends it
_DISCARD_PORT = 9
_SSH_SECONDS = 10  # it reads files, no more
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")


class NetworkError(OSError):
    """No usable address."""


class UnknownHostError(NetworkError):
    """A host's name has no address here."""


def interface_address(name: str) -> str:
    """An address of a network interface: IPv4 if it has one, else a global IPv6 one.

    Raises:
        NetworkError: there is no such interface, or it has no address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", _interface_bytes(name))
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if address := _global_ipv6_address(name):
                return address
            known = ", ".join(known for _, known in socket.if_nameindex())
            raise NetworkError(
                f"network interface {name!r} has no address here ({error.strerror});"
                f" there are {known}"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def _interface_bytes(name: str) -> bytes:
    """The name of an interface as the system has it.

    Raises:
        OSError: none can have it; a longer one would be taken for that which it begins with.
    """
    with contextlib.suppress(UnicodeEncodeError):
        if len(encoded := os.fsencode(name)) <= _LONGEST_INTERFACE:
            return encoded
    raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))


def _global_ipv6_address(interface: str) -> str | None:
    try:
        lines = os.fsdecode(_IPV6_ADDRESSES.read_bytes()).splitlines()
    except OSError:
        return None  # no IPv6 here, or no Linux
    for line in lines:
        digits, _, _, scope, _, name = line.split()
        if name == interface and int(scope, 16) == 0:
            return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
    return None


def address_towards(hostname: str) -> str:
    """This host's address on the way to another one: the routing table's answer, nothing is sent.

    Raises:
        NetworkError: there is no way to any of the other host's addresses.
        UnknownHostError: its name is unknown.
    """
    failures = []
    try:
        found = _addresses_of(hostname)
    except OSError as error:
        raise UnknownHostError(
            f"no way to host {hostname!r}: {error.strerror or error}. Where ssh knows a way to it"
            " all the same, name the interface at which it reaches this host:"
            " --network-interfaces"
        ) from None
    for family, kind, _, _, target in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(target)
            except OSError as error:
                failures.append(f"{target[0]}: {error.strerror or error}")
                continue
            address: str = probe.getsockname()[0]
        return address
    raise NetworkError(f"no way to host {hostname!r}: {'; '.join(failures)}")


def _addresses_of(hostname: str) -> list[tuple[Any, ...]]:
    """The addresses of a host, which may be known to ssh's configuration alone (`HostName`).

    Raises:
        OSError: its name is unknown to both.
    """
    try:
        return _look_up(hostname)
    except OSError:
        name = _name_for_ssh(hostname)
        if name in ("", hostname):
            raise
        return _look_up(name)


def _look_up(name: str) -> list[tuple[Any, ...]]:
    """The addresses of a name.

    Raises:
        OSError: it has none, or is none that a host can have.
    """
    try:
        return socket.getaddrinfo(name, _DISCARD_PORT, type=socket.SOCK_DGRAM)
    except UnicodeError:  # Python's own check, before anybody is asked
        raise OSError("no host has such a name (1 to 63 characters between dots)") from None


def _name_for_ssh(hostname: str) -> str:
    """What ssh connects to for a name; "" where it does not say."""
    try:
        told = subprocess.run(
            ["ssh", "-G", hostname],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SSH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    options = (line.partition(" ") for line in told.stdout.splitlines())
    return next((text for option, _, text in options if option == "hostname"), "")


def is_address(hostname: str) -> bool:
    """Whether it is an IPv4 or IPv6 address, and so no name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, hostname)
            return True
    return False


def is_own_address(hostname: str) -> bool:
    """Whether a name or an address is one of this host's; nothing is sent to find out.

    The routing table answers for each of a host's own addresses with that address. Other loopback
    addresses than the first, such as 127.0.0.2, count as other hosts.
    """
    try:
        found = _look_up(hostname)
    except OSError:
        return False  # ssh's configuration may know it
    for family, kind, _, _, target in found:
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.connect(target)
            if probe.getsockname()[0] == target[0]:
                return True
    return False


def loopback_address() -> str:
    """The address at which the processes of this host reach each other.

    Raises:
        NetworkError: its loopback interface has none.
    """
    for address in _LOOPBACKS:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
            probe.connect((address, _DISCARD_PORT))  # fails while the interface is down
            return address
    raise NetworkError(
        f"this host has no loopback address: neither {' nor '.join(_LOOPBACKS)} can be used"
        " (`ip link set lo up` brings both back)"
    )


def own_addresses() -> list[str]:
    """This host's addresses: one of each interface that has any, but for the loopback's."""
    addresses = []
    for _, name in socket.if_nameindex():
        with contextlib.suppress(NetworkError):
            addresses.append(interface_address(name))
    return [address for address in addresses if not ipaddress.ip_address(address).is_loopback]


def choose_addresses(
    remote_hosts: Sequence[str], interfaces: Sequence[str], *, any_name: bool = False
) -> list[str]:
    """Where other hosts can reach the store: each of them at one of these addresses.

    Args:
        remote_hosts: hosts other than this one; none: the loopback address.
        interfaces: the user's choice of interfaces; those that this host has count.
        any_name: whether they are reached by names that need not have addresses here, as pods are;
            such a host may find each of this one's addresses.

    Raises:
        NetworkError: there is no usable address, or the ranks of this host would find none.
    """
    here = {name for _, name in socket.if_nameindex()}
    chosen = [name for name in interfaces if name in here] or interfaces[:1]
    try:
        found = list(dict.fromkeys(map(interface_address, chosen)))
    except NetworkError as error:
        if not remote_hosts:
            raise
        hint = _ways_for_others(remote_hosts[0], interfaces, here)
        raise NetworkError(f"{error}. {hint}") from None
    if not remote_hosts:
        return [loopback_address()]
    if found:
        return found
    ways = (_addresses_towards(host, any_name=any_name) for host in remote_hosts)
    return list(dict.fromkeys(itertools.chain.from_iterable(ways)))


def own_way_first(hostname: str, addresses: Sequence[str]) -> list[str]:
    """The addresses at which a host may reach this one, that on its own way first.

    At the others something else may answer there, as at those of bridges that each host has.

    Args:
        hostname: of the host; where no way to it is known, the order stays.
        addresses: of this host, as `choose_addresses` returns them.
    """
    way = None
    with contextlib.suppress(NetworkError):
        way = address_towards(hostname)
    return sorted(addresses, key=lambda address: address != way)


def _ways_for_others(hostname: str, interfaces: Sequence[str], here: set[str]) -> str:
    """What to do where only the other hosts have the interfaces that have been chosen."""
    # One that this host has without an address would be taken first all the same.
    own = [] if here & set(interfaces) else _interfaces_towards(hostname)
    names, flag = ",".join(interfaces), "--network-interfaces"
    beside = f" {flag} {','.join([*interfaces, *own])}, or" if own else ""
    return (
        f"Where other hosts have one, give{beside} {INTERFACE.name}={names}, which chooses for the"
        f" ranks alone, in place of {flag}"
    )


def _interfaces_towards(hostname: str) -> list[str]:
    """This host's interface on the way to another one; none where there is no way."""
    with contextlib.suppress(NetworkError):
        towards = address_towards(hostname)
        for _, name in socket.if_nameindex():
            with contextlib.suppress(NetworkError):
                if interface_address(name) == towards:
                    return [name]
    return []


def _addresses_towards(hostname: str, *, any_name: bool) -> list[str]:
    try:
        return [address_towards(hostname)]
    except UnknownHostError:
        if any_name and (addresses := own_addresses()):
            return addresses
        raise


def any_address() -> str:
    """Where a server listens that is to be reached at every address of this host."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - authenticated


def listening_address(addresses: Sequence[str]) -> str:
    """Where a server listens that is to be reached at all of some addresses of this host."""
    if len(addresses) == 1:
        return addresses[0]
    return "::" if any(":" in address for address in addresses) else "0.0.0.0"  # noqa: S104 - authenticated
