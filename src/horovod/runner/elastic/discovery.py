"""Which hosts there are now: a fixed list, or what a script of the user's prints."""

import re
import subprocess
from collections.abc import Mapping
from typing import Protocol

from horovod.runner.threads import why_not_started

_SCRIPT_SECONDS = 60.0


class DiscoveryError(Exception):
    """The hosts cannot be told this time."""


class HostDiscovery(Protocol):
    """Tells which hosts may take ranks."""

    @property
    def fixed(self) -> bool:
        """Whether the answer can never change."""

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """Host names to their numbers of slots.

        Raises:
            DiscoveryError: there is no answer this time.
        """


class FixedHosts:
    """Always the same hosts."""

    fixed = True

    def __init__(self, available_hosts: Mapping[str, int]) -> None:
        self._hosts = dict(available_hosts)

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """The list."""
        return self._hosts


class HostDiscoveryScript:
    """What an executable prints: a line `host:slots`, or `host`, for each host.

    Args:
        discovery_script: path of the executable, or a command line for the shell.
        slots: of hosts that are printed without a number; None if that is a mistake.
    """

    fixed = False

    def __init__(self, discovery_script: str, slots: int | None = None) -> None:
        self._script = discovery_script
        self._slots = slots

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """Runs the script."""
        try:
            done = subprocess.run(  # noqa: S602 - a command line of the user's, as in Horovod
                self._script,
                shell=True,
                capture_output=True,
                text=True,
                timeout=_SCRIPT_SECONDS,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DiscoveryError(
                f"{self._script} did not end within {_SCRIPT_SECONDS:.0f} seconds"
            ) from None
        except OSError as error:
            raise DiscoveryError(f"cannot start {self._script}: {why_not_started(error)}") from None
        if done.returncode != 0:
            raise DiscoveryError(
                f"{self._script} ended with code {done.returncode}: {done.stderr.strip()}"
            )
        return parse_discovered(done.stdout, self._slots)


def parse_discovered(text: str, slots: int | None) -> Mapping[str, int]:
    """Reads a discovery script's output; blank lines and comments (`#`) are passed over.

    Of several lines for a host the last one counts.

    Args:
        text: the output.
        slots: of hosts without a number.

    Raises:
        DiscoveryError: a line has another form.
    """
    hosts: dict[str, int] = {}
    for line in text.splitlines():
        entry = line.split("#", 1)[0].strip()
        if not entry:
            continue
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*)(?::([0-9]{1,9}))?", entry)
        if match is None or (match[2] is None and slots is None):
            raise DiscoveryError(
                f"the discovery script printed {entry!r}, which is not of the form `<host>:<slots>`"
                + ("" if match is None else "; or give the number with --slots-per-host")
            )
        hosts[match[1]] = int(match[2]) if match[2] is not None else slots or 0
    return {host: count for host, count in hosts.items() if count > 0}
