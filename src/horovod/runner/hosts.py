"""Hosts and slots: reading host lists, and which rank goes where."""

import functools
import itertools
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from horovod import _settings
from horovod.runner.network import is_address, is_own_address

INVALID_HOSTS = "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2."
HOST = r"([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\])"  # a name, an IPv4 or an [IPv6] address
LOOPBACK_NAMES = ("localhost", "127.0.0.1")


class HostsError(ValueError):
    """A host list cannot be used."""


@dataclass(frozen=True)
class HostInfo:
    """A host and how many ranks it takes."""

    hostname: str
    slots: int


@dataclass(frozen=True)
class SlotInfo:
    """One rank's place: `local` counts on its host, `cross` over hosts with the same local rank."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def environment(self) -> dict[str, str]:
        """What tells a worker its place."""
        return {
            _settings.HOSTNAME.name: self.hostname,
            _settings.RANK.name: str(self.rank),
            _settings.SIZE.name: str(self.size),
            _settings.LOCAL_RANK.name: str(self.local_rank),
            _settings.LOCAL_SIZE.name: str(self.local_size),
            _settings.CROSS_RANK.name: str(self.cross_rank),
            _settings.CROSS_SIZE.name: str(self.cross_size),
        }


def parse_hosts(text: str) -> list[HostInfo]:
    """Reads `host:slots,host:slots`; a host with 0 slots is left out.

    Raises:
        HostsError: in Horovod's words.
    """
    hosts = []
    for item in text.split(","):
        match = re.fullmatch(rf"{HOST}:([0-9]{{1,9}})", item.strip())
        if match is None:
            raise HostsError(INVALID_HOSTS)
        hosts.append(HostInfo(match[1].strip("[]"), int(match[2])))
    return _merge(hosts)


def parse_hostfile(text: str, name: str) -> list[HostInfo]:
    """Reads lines of `host slots=n`; blank lines and comments (`#`) are passed over.

    A host with 0 slots is left out.

    Args:
        text: of the file.
        name: of the file, for the message.

    Raises:
        HostsError: a line has another form, or no line names a host.
    """
    hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.split("#", 1)[0].strip()
        if not entry:
            continue
        match = re.fullmatch(rf"{HOST}\s+slots\s*=\s*([0-9]{{1,9}})", entry)
        if match is None:
            raise HostsError(
                f"{name}, line {number}: {entry!r} is not of the form `<host> slots=<n>`"
            )
        hosts.append(HostInfo(match[1].strip("[]"), int(match[2])))
    if not hosts:
        raise HostsError(f"{name} names no host; lines have the form `<host> slots=<n>`")
    return _merge(hosts)


def _merge(hosts: Iterable[HostInfo]) -> list[HostInfo]:
    """A host that is named twice has the slots of both; one without slots is left out."""
    slots: dict[str, int] = {}
    for host in hosts:
        slots[host.hostname] = slots.get(host.hostname, 0) + host.slots
    return [HostInfo(name, count) for name, count in slots.items() if count]


def get_host_assignments(hosts: Sequence[HostInfo], num_proc: int) -> list[SlotInfo]:
    """Fills the hosts in their order.

    Returns:
        One place per rank, by rank.

    Raises:
        HostsError: there are too few slots, in Horovod's words.
    """
    available = sum(host.slots for host in hosts)
    if num_proc > available:
        raise HostsError(
            f"Requested more processes ({num_proc}) than there are available slots ({available})"
        )
    offered = ((host.hostname, local) for host in hosts for local in range(host.slots))
    places = list(itertools.islice(offered, num_proc))
    local_sizes: dict[str, int] = {}
    columns: dict[int, list[str]] = {}
    for hostname, local in places:
        local_sizes[hostname] = local_sizes.get(hostname, 0) + 1
        columns.setdefault(local, []).append(hostname)
    return [
        SlotInfo(
            hostname=hostname,
            rank=rank,
            local_rank=local,
            cross_rank=columns[local].index(hostname),
            size=num_proc,
            local_size=local_sizes[hostname],
            cross_size=len(columns[local]),
        )
        for rank, (hostname, local) in enumerate(places)
    ]


@functools.cache  # a name server may take seconds, and hosts are asked about again and again
def is_local(hostname: str) -> bool:
    """Whether ranks of a host are started directly, without ssh: its names and addresses are.

    Nobody is asked for names that need no looking up: a local job starts where no name server
    answers.
    """
    if hostname in LOOPBACK_NAMES or hostname == socket.gethostname():
        return True
    bare = hostname.strip("[]")
    if is_own_address(bare):
        return True
    return not is_address(bare) and hostname == _full_name()


@functools.cache
def _full_name() -> str:
    """This host's name with its domain, which may stand for an address of another loopback."""
    return socket.getfqdn()
