"""The address at which other hosts can reach this one."""

import fcntl
import socket
import struct
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915  # linux/sockios.h: get an interface's address
_DISCARD_PORT = 9


class NetworkError(OSError):
    """No usable address."""


def interface_address(name: str) -> str:
    """The IPv4 address of a network interface.

    Raises:
        NetworkError: there is no such interface, or it has no address.
    """
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            known = ", ".join(known for _, known in socket.if_nameindex())
            raise NetworkError(
                f"network interface {name!r} has no IPv4 address ({error.strerror});"
                f" there are {known}"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def address_towards(hostname: str) -> str:
    """This host's address on the way to another one: the routing table's answer, nothing is sent.

    Raises:
        NetworkError: the other host's name is unknown, or there is no way to it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((hostname, _DISCARD_PORT))
        except OSError as error:
            raise NetworkError(f"no way to host {hostname!r}: {error.strerror or error}") from None
        address: str = probe.getsockname()[0]
    return address


def choose_address(remote_hosts: Sequence[str], interfaces: Sequence[str]) -> str:
    """Where the store should listen.

    Args:
        remote_hosts: hosts other than this one; none: the loopback address.
        interfaces: the user's choice of interfaces; the first counts.

    Raises:
        NetworkError: there is no usable address.
    """
    if not remote_hosts:
        return LOOPBACK
    return interface_address(interfaces[0]) if interfaces else address_towards(remote_hosts[0])
