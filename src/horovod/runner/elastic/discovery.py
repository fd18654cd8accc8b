"""Which hosts there are now: a fixed list, or what a script of the user's prints."""

import os
import re
import selectors
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Protocol

from horovod.runner.children import EndNotToldError, await_end
from horovod.runner.hosts import HOST
from horovod.runner.process_groups import signal_group
from horovod.runner.processes import Guardian
from horovod.runner.threads import why_not_started

_SCRIPT_SECONDS = 60.0
_MOST_BYTES = 1 << 20  # that a script may print; of its complaints no more are kept
_CHUNK = 1 << 16


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

    def stop(self) -> None:
        """Breaks off a look at the hosts that is under way."""


class FixedHosts:
    """Always the same hosts."""

    fixed = True

    def __init__(self, available_hosts: Mapping[str, int]) -> None:
        self._hosts = dict(available_hosts)

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """The list."""
        return self._hosts

    def stop(self) -> None:
        """Nothing takes its time."""


class ForgivingDiscovery:
    """Another discovery, whose unexpected exceptions are no answer this time, and no end of asking.

    Args:
        discovery: the other one.
    """

    def __init__(self, discovery: HostDiscovery) -> None:
        self._discovery = discovery

    @property
    def fixed(self) -> bool:
        """As the other one's."""
        return self._discovery.fixed

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """What the other one says; of an unexpected exception the error tells the traceback."""
        try:
            return self._discovery.find_available_hosts_and_slots()
        except DiscoveryError:
            raise
        except Exception as error:
            told = "".join(traceback.format_exception(error)).rstrip()
            raise DiscoveryError(f"looking for hosts has failed\n{told}") from error

    def stop(self) -> None:
        """Breaks off the other one's look."""
        self._discovery.stop()


class HostDiscoveryScript:
    """What an executable prints: a line `host:slots`, or `host`, for each host.

    Args:
        discovery_script: path of the executable, or a command line for the shell.
        slots: of hosts that are printed without a number; None if that is a mistake.
        guarded: end it should this process be killed; then `stop` has to be called in the end.
    """

    fixed = False

    def __init__(
        self, discovery_script: str, slots: int | None = None, *, guarded: bool = False
    ) -> None:
        self._guarded = guarded
        self._script = discovery_script
        self._slots = slots
        self._lock = threading.Lock()
        self._stopped = False
        self._running: subprocess.Popen[bytes] | None = None
        self._guardian: Guardian | None = None  # from the first look on, until `stop`

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """Runs the script; ends all that it has started when it takes too long.

        Raises:
            DiscoveryError: it did not end in time, failed, or printed something else or too much.
        """
        with self._start() as script:
            try:
                out, complaints = self._collect(script)
            except subprocess.TimeoutExpired:
                raise DiscoveryError(self._end_late(script)) from None
            finally:
                if script.returncode is None:
                    signal_group(script.pid, signal.SIGKILL)
                self._forget(script)
        if script.returncode != 0:
            complaint = complaints.strip()
            said = f": {complaint}" if complaint else " and wrote nothing to stderr"
            raise DiscoveryError(f"{self._script} ended with code {script.returncode}{said}")
        return parse_discovered(out, self._slots)

    def _collect(self, script: "subprocess.Popen[bytes]") -> tuple[str, str]:
        """What a script prints on its two streams, once it has ended.

        Raises:
            TimeoutExpired: that takes too long.
            DiscoveryError: it is too much, as of a script that repeats itself without end; or the
                system does not tell how the script has ended.
        """
        deadline = time.monotonic() + _SCRIPT_SECONDS
        out, complaints = bytearray(), bytearray()
        with selectors.DefaultSelector() as selector:
            for pipe, text in ((script.stdout, out), (script.stderr, complaints)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, text)
            while selector.get_map():
                left = deadline - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    raise subprocess.TimeoutExpired(self._script, _SCRIPT_SECONDS)
                for found, _ in ready:
                    if not (more := os.read(found.fd, _CHUNK)):
                        selector.unregister(found.fileobj)
                    elif len(found.data) < _MOST_BYTES:
                        found.data.extend(more)
                    elif found.data is out:
                        raise DiscoveryError(
                            f"{self._script} printed more than {_MOST_BYTES} bytes"
                        )
        try:
            await_end(script, max(deadline - time.monotonic(), 0))
        except EndNotToldError as error:
            raise DiscoveryError(f"{self._script}: {error}") from None
        script.wait()
        # What it prints may be in any encoding.
        return out.decode(errors="backslashreplace"), complaints.decode(errors="backslashreplace")

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._stopped:
                raise DiscoveryError("nobody asks any more")
            try:
                if self._guarded and self._guardian is None:
                    self._guardian = Guardian()
                mark = {} if self._guardian is None else self._guardian.expect()
                self._running = subprocess.Popen(  # noqa: S602 - a command line of the user's, as in Horovod
                    self._script,
                    shell=True,
                    env={**os.environ, **mark},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                reason = why_not_started(error)
                raise DiscoveryError(f"cannot start {self._script}: {reason}") from None
            if self._guardian is not None:
                self._guardian.note(b"+", self._running.pid)
            return self._running

    def _forget(self, script: "subprocess.Popen[bytes]") -> None:
        """Lets a script go that has ended, and is not to be ended any more."""
        with self._lock:
            self._running = None
            if self._guardian is not None:
                self._guardian.note(b"-", script.pid)
            if self._stopped:
                self._dismiss_guardian()

    def _dismiss_guardian(self) -> None:
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None

    def _end_late(self, script: "subprocess.Popen[bytes]") -> str:
        """Ends what takes too long, and says what that was."""
        ended = script.poll() is not None
        signal_group(script.pid, signal.SIGKILL)
        if ended:
            return (
                f"{self._script} has ended, but what it has started still held its output open"
                f" after {_SCRIPT_SECONDS:.0f} seconds"
            )
        return f"{self._script} did not end within {_SCRIPT_SECONDS:.0f} seconds"

    def stop(self) -> None:
        """Ends the script, if it runs, and all that it has started; from another thread."""
        with self._lock:
            self._stopped = True
            if self._running is None:
                self._dismiss_guardian()
            else:
                signal_group(self._running.pid, signal.SIGKILL)


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
        match = re.fullmatch(rf"{HOST}(?::([0-9]{{1,9}}))?", entry)
        if match is None or (match[2] is None and slots is None):
            raise DiscoveryError(
                f"the discovery script printed {entry!r}, which is not of the form `<host>:<slots>`"
                + ("" if match is None else "; or give the number with --slots-per-host")
            )
        hosts[match[1].strip("[]")] = int(match[2]) if match[2] is not None else slots or 0
    return {host: count for host, count in hosts.items() if count > 0}
