"""The messages of the store in which the ranks of a job find each other, and how they are proved.

After accept the server sends 16 random bytes Ns. The client sends `HVD2`, 16 random bytes Nc and
HMAC-SHA256(secret, "client" + Ns + Nc + "store"); the server closes when that is wrong, else
answers HMAC-SHA256(secret, "server" + Nc + Ns + "store"). Requests follow: u8 op (1 put, 2 get),
u32 key length, key; put adds u32 value length, value; get adds u32 milliseconds. Reply: u8 status
(0 ok, 1 timeout); after a successful get u32 value length, value. Integers are little-endian.

Whoever passes the messages on between the two cannot change, drop or repeat one unnoticed: behind
the n-th request and the n-th reply, from 0, stands HMAC-SHA256(key, "client" or "server" + n as u64
+ the message), with HMAC-SHA256(secret, "messages" + Ns + Nc + "store") as the key.
"""

import hmac
import struct

MAGIC = b"HVD2"
NONCE_BYTES = 16
DIGEST_BYTES = 32
HELLO_BYTES = len(MAGIC) + NONCE_BYTES + DIGEST_BYTES
PUT, GET = 1, 2
OK, TIMEOUT = 0, 1
MAX_KEY = 1 << 10
MAX_VALUE = 1 << 20
HANDSHAKE_SECONDS = 5.0  # for a client to prove itself, and at each of several addresses
CLIENT, SERVER = b"client", b"server"
_PURPOSE = b"store"


def sign(secret: bytes, speaker: bytes, first: bytes, second: bytes) -> bytes:
    """The proof that the speaker knows the secret, bound to both nonces."""
    return hmac.digest(secret, speaker + first + second + _PURPOSE, "sha256")


class Proofs:
    """Of the messages that go one way through a connection, in their order.

    Args:
        secret: of the job.
        speaker: who sends them, `CLIENT` or `SERVER`.
        server_nonce: of this connection.
        client_nonce: likewise.
    """

    def __init__(
        self, secret: bytes, speaker: bytes, server_nonce: bytes, client_nonce: bytes
    ) -> None:
        self._key = sign(secret, b"messages", server_nonce, client_nonce)
        self._speaker = speaker
        self._count = 0

    def prove(self, message: bytes) -> bytes:
        """The next message, with its proof behind it."""
        return message + self._next(message)

    def holds(self, message: bytes, proof: bytes) -> bool:
        """Whether this is the next message, and its sender knows the secret."""
        return hmac.compare_digest(self._next(message), proof)

    def _next(self, message: bytes) -> bytes:
        count = struct.pack("<Q", self._count)
        self._count += 1
        return hmac.digest(self._key, self._speaker + count + message, "sha256")
