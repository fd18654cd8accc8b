"""A Python client of the store in which the ranks of a job find each other.

The protocol, and how both ends prove that they know the job's secret, stand in `rendezvous`.
"""

import hmac
import secrets
import socket
import struct

from horovod.runner.rendezvous import (
    DIGEST_BYTES,
    GET,
    HANDSHAKE_SECONDS,
    MAGIC,
    MAX_VALUE,
    NONCE_BYTES,
    OK,
    PUT,
    sign,
)

_GRACE_SECONDS = 10.0  # beyond the time that the store itself waits for a value


class StoreError(OSError):
    """The store does not answer, or is not the job's."""


def connect(addresses: list[str]) -> tuple[str, socket.socket]:
    """Connects to the first of some addresses of the launcher that answers; returns both.

    Raises:
        StoreError: none does.
    """
    errors = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            host = host.removeprefix("[").removesuffix("]")
            return address, socket.create_connection((host, int(port)), HANDSHAKE_SECONDS)
        except OSError as error:
            errors.append(f"{address}: {error}")
    raise StoreError(f"no connection to the job's launcher at {'; '.join(errors)}")


class StoreClient:
    """One authenticated connection; not to be shared by threads.

    Args:
        addresses: "host:port", or several with commas between them; the first that answers is used.
        secret: of the job.

    Raises:
        StoreError: there is no connection, or the other end does not know the secret.
    """

    def __init__(self, addresses: str, secret: bytes) -> None:
        self._address, self._connection = connect(addresses.split(","))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self._authenticate(secret)
        except StoreError:
            self._connection.close()
            raise

    def put(self, key: bytes, value: bytes) -> None:
        """Stores a value, of at most `MAX_VALUE` bytes."""
        if len(value) > MAX_VALUE:
            raise StoreError(f"{len(value)} bytes are too many for one value of the store")
        self._send(struct.pack("<BI", PUT, len(key)) + key + struct.pack("<I", len(value)) + value)
        self._connection.settimeout(_GRACE_SECONDS)
        self._receive(1)

    def get(self, key: bytes, seconds: float) -> bytes | None:
        """The value of a key as soon as there is one; None when there is none in time."""
        milliseconds = min(int(seconds * 1000), 0xFFFFFFFF)
        self._send(struct.pack("<BI", GET, len(key)) + key + struct.pack("<I", milliseconds))
        self._connection.settimeout(seconds + _GRACE_SECONDS)
        if self._receive(1)[0] != OK:
            return None
        (length,) = struct.unpack("<I", self._receive(4))
        return self._receive(length)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _authenticate(self, secret: bytes) -> None:
        theirs = self._receive(NONCE_BYTES)
        ours = secrets.token_bytes(NONCE_BYTES)
        self._send(MAGIC + ours + sign(secret, b"client", theirs, ours))
        proof = self._receive(DIGEST_BYTES)
        if not hmac.compare_digest(proof, sign(secret, b"server", ours, theirs)):
            raise StoreError(f"{self._address} does not know the job's secret")

    def _send(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise StoreError(f"the job's store at {self._address} is gone: {error}") from None

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        try:
            while len(data) < count:
                chunk = self._connection.recv(count - len(data))
                if not chunk:
                    break
                data += chunk
        except TimeoutError:
            raise StoreError(f"the job's store at {self._address} does not answer") from None
        except OSError as error:
            raise StoreError(f"the job's store at {self._address} is gone: {error}") from None
        if len(data) < count:
            raise StoreError(f"the job's store at {self._address} has hung up")
        return bytes(data)
