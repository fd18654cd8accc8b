"""What a worker of an elastic job and its driver tell each other through the store."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

_READY = b"elastic/ready/"


@dataclass(frozen=True)
class Ready:
    """A worker waits for its next place.

    Attributes:
        attempt: how often it has asked before.
        trouble: why it could not connect with the other ranks in the place that it had; empty if it
            could, or had none.
        synchronised: whether it has got the state of the training, as `hvd.elastic.run` gives it.
    """

    worker: int
    attempt: int
    trouble: str = ""
    synchronised: bool = False

    @staticmethod
    def key(worker: int) -> bytes:
        """Where a worker's last question stands."""
        return b"%b%d" % (_READY, worker)

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value."""
        value = vars(self).copy()
        return self.key(value.pop("worker")), json.dumps(value).encode()

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> "Ready | None":
        """Reads what `encode` wrote; None for keys that are something else's."""
        if not key.startswith(_READY):
            return None
        return cls(int(key.removeprefix(_READY)), **json.loads(value))


@dataclass(frozen=True)
class Place:
    """The answer: where the worker belongs now.

    Attributes:
        round: how often the job has been formed before.
        environment: what tells the worker its place; empty when it has none any more.
        reason: why it has none.
    """

    round: int
    environment: Mapping[str, str]
    reason: str = ""

    @staticmethod
    def key(worker: int, attempt: int) -> bytes:
        """Where the answer to a question stands."""
        return b"elastic/place/%d/%d" % (worker, attempt)

    def encode(self) -> bytes:
        """The value."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "Place":
        """Reads what `encode` wrote."""
        return cls(**json.loads(value))


@dataclass(frozen=True)
class News:
    """Hosts have come or gone, or a rank has ended.

    Attributes:
        round: the one that should end because of it.
        timestamp: in seconds.
        update: one of `horovod.common.elastic.HostUpdateResult`.
        loss: which rank has ended, so that nobody waits for it to connect; empty if none has.
    """

    round: int
    timestamp: float
    update: int
    loss: str = ""

    @staticmethod
    def key(number: int) -> bytes:
        """Where a piece of news stands; they are numbered from 0."""
        return b"elastic/news/%d" % number

    def encode(self) -> bytes:
        """The value."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> "News":
        """Reads what `encode` wrote."""
        return cls(**json.loads(value))
