"""A Python client of the store in which the ranks of a job find each other.

The protocol, and how both ends prove that they know the job's secret, stand in
`store_messages`.
"""

import errno
import hmac
import math
import secrets
import socket
import struct
import time
from typing import Any

from horovod.runner.store_messages import (
    CLIENT,
    DIGEST_BYTES,
    GET,
    HANDSHAKE_SECONDS,
    MAGIC,
    MAX_VALUE,
    NONCE_BYTES,
    OK,
    PUT,
    SERVER,
    Proofs,
    sign,
)

PATIENCE_SECONDS = 30.0  # the default of HOROVOD_START_TIMEOUT
# Until a connection that was hung up on is made anew: the launcher had no room for it, or is none.
_PAUSES = (0.1, 0.3, 1.0)
# An interface, a route or a rule of a firewall may come, as while a host's network is set up: the
# address is tried for as long as there is time, with the same pauses and then the longest.
_LONGEST_PAUSE = 1.0
_PASSING = frozenset(
    (
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EACCES,
        errno.EPERM,
        errno.EADDRNOTAVAIL,
    )
)
# The system asks the other end, which answers even while the launcher is suspended; without an
# answer the connection ends after IDLE + COUNT * INTERVAL seconds.
_KEEPALIVE_IDLE, _KEEPALIVE_INTERVAL, _KEEPALIVE_COUNT = 30, 10, 4
_NO_CONNECTION = "no connection to the job's launcher at "


class StoreError(OSError):
    """The store does not answer, or is not the job's."""


class _SilentError(StoreError):
    """It does not answer in time."""


class _HungUpError(StoreError):
    """The other end has closed the connection."""


class _UnreachableError(StoreError):
    """There is no way to it at the moment."""


def connect(addresses: list[str], seconds: float = HANDSHAKE_SECONDS) -> tuple[str, socket.socket]:
    """Connects to the first of some addresses of the launcher that answers; returns both.

    Args:
        addresses: "host:port" each.
        seconds: for each of them.

    Raises:
        StoreError: none does.
    """
    errors = []
    kinds = set()
    for address in addresses:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        # For text Python imports a codec at that moment, which fails where nothing can be opened
        # any more, and says nothing of that.
        name: Any = host.encode() if host.isascii() else host
        try:
            return address, socket.create_connection((name, int(port)), seconds)
        except OSError as error:
            kinds.add(_kind_of(error))
            errors.append(f"{address}: {error}")
    kind = next((kind for kind in (_SilentError, _UnreachableError) if kind in kinds), StoreError)
    raise kind(f"{_NO_CONNECTION}{'; '.join(errors)}")


def _kind_of(error: OSError) -> type[StoreError]:
    if isinstance(error, TimeoutError):
        return _SilentError
    return _UnreachableError if error.errno in _PASSING else StoreError


class StoreClient:
    """One authenticated connection; not to be shared by threads.

    Args:
        addresses: "host:port", or several with commas between them; the first that answers is used.
        secret: of the job.
        patience: seconds for the store to answer, at first and whenever it is asked something: the
            launcher may be suspended for a while, or serve thousands of ranks at once.
        no_way: seconds for which addresses are tried to which there is no way; at most `patience`.

    Raises:
        StoreError: there is no connection, or the other end does not know the secret.
    """

    def __init__(
        self,
        addresses: str,
        secret: bytes,
        patience: float = PATIENCE_SECONDS,
        no_way: float = math.inf,
    ) -> None:
        self._patience = patience
        self._no_way = min(no_way, patience)
        self._address = addresses
        self._connection = self._find(addresses.split(","), secret)

    def _find(self, addresses: list[str], secret: bytes) -> socket.socket:
        """Connects to the first address at which somebody proves to be the store."""
        began = time.monotonic()
        deadline = began + self._patience
        pauses = {address: iter(_PAUSES) for address in addresses}
        turns = dict.fromkeys(addresses, 0.0)  # when each is to be tried
        errors: dict[str, str] = {}
        while turns:
            address = min(turns, key=turns.__getitem__)
            time.sleep(max(turns.pop(address) - time.monotonic(), 0))
            left = max(deadline - time.monotonic(), 0.001)
            pause: float | None = None
            last = deadline  # for the next turn
            try:
                return self._try(address, secret, min(left, HANDSHAKE_SECONDS) if turns else left)
            except _SilentError as error:
                # With little time left it says nothing of an address known as unreachable.
                if time.monotonic() < deadline or address not in errors:
                    errors[address] = str(error)
                pause = 0.0  # it may be busy: its turn comes again
            except _HungUpError as error:
                errors[address] = str(error)
                pause = next(pauses[address], None)
            except _UnreachableError as error:
                errors[address] = f"{error}, tried for {self._no_way:g} seconds"
                pause = next(pauses[address], _LONGEST_PAUSE)
                last = began + self._no_way
            except StoreError as error:
                errors[address] = str(error)
            if pause is not None and (turn := time.monotonic() + pause) < last:
                turns[address] = turn
        first, *rest = errors.values()
        raise StoreError("; ".join([first, *(text.removeprefix(_NO_CONNECTION) for text in rest)]))

    def _try(self, address: str, secret: bytes, seconds: float) -> socket.socket:
        deadline = time.monotonic() + seconds
        self._address, self._connection = connect([address], seconds)
        for level, option, value in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT),
        ):
            self._connection.setsockopt(level, option, value)
        try:
            self._authenticate(secret, deadline)
        except StoreError:
            self._connection.close()
            raise
        return self._connection

    def put(self, key: bytes, value: bytes) -> None:
        """Stores a value, of at most `MAX_VALUE` bytes."""
        if len(value) > MAX_VALUE:
            raise StoreError(f"{len(value)} bytes are too many for one value of the store")
        self._connection.settimeout(self._patience)
        self._request(PUT, key, struct.pack("<I", len(value)) + value)
        self._check(self._receive(1))

    def get(self, key: bytes, seconds: float) -> bytes | None:
        """The value of a key as soon as there is one; None when there is none in time."""
        milliseconds = min(int(seconds * 1000), 0xFFFFFFFF)
        self._connection.settimeout(seconds + self._patience)
        self._request(GET, key, struct.pack("<I", milliseconds))
        status = self._receive(1)
        if status[0] != OK:
            self._check(status)
            return None
        announced = self._receive(4)
        (length,) = struct.unpack("<I", announced)
        if length > MAX_VALUE:
            raise self._changed()
        value = self._receive(length)
        self._check(status + announced + value)
        return value

    def _request(self, op: int, key: bytes, rest: bytes) -> None:
        message = struct.pack("<BI", op, len(key)) + key + rest
        self._send(self._asked.prove(message))

    def _check(self, reply: bytes) -> None:
        if not self._answered.holds(reply, self._receive(DIGEST_BYTES)):
            raise self._changed()

    def _changed(self) -> StoreError:
        return StoreError(
            f"somebody between this process and the job's store at {self._address} has changed what"
            " the store sent; nothing of it is used"
        )

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _authenticate(self, secret: bytes, deadline: float) -> None:
        self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
        theirs = self._receive(NONCE_BYTES)
        self._connection.settimeout(max(deadline - time.monotonic(), 0.001))
        ours = secrets.token_bytes(NONCE_BYTES)
        self._send(MAGIC + ours + sign(secret, CLIENT, theirs, ours))
        proof = self._receive(DIGEST_BYTES)
        if not hmac.compare_digest(proof, sign(secret, SERVER, ours, theirs)):
            raise StoreError(f"{self._address} does not know the job's secret")
        self._asked, self._answered = (
            Proofs(secret, speaker, theirs, ours) for speaker in (CLIENT, SERVER)
        )

    def _send(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except TimeoutError:
            raise _SilentError(f"the job's store at {self._address} does not answer") from None
        except OSError as error:
            raise _HungUpError(f"the job's store at {self._address} is gone: {error}") from None

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        try:
            while len(data) < count:
                chunk = self._connection.recv(count - len(data))
                if not chunk:
                    break
                data += chunk
        except TimeoutError:
            raise _SilentError(f"the job's store at {self._address} does not answer") from None
        except OSError as error:
            raise _HungUpError(f"the job's store at {self._address} is gone: {error}") from None
        if len(data) < count:
            raise _HungUpError(f"the job's store at {self._address} has hung up")
        return bytes(data)
