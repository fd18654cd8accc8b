"""Values of any size through the job's store, whose single values are small."""

from collections.abc import Callable, Iterator

from horovod.runner.store_messages import MAX_VALUE


def pack(name: str, data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values that stand for some bytes; the last one says that all are there."""
    parts = -(-len(data) // MAX_VALUE)
    for part in range(parts):
        yield _part_key(name, part), data[part * MAX_VALUE : (part + 1) * MAX_VALUE]
    yield _count_key(name), b"%d" % parts


def unpack(name: str, look_up: Callable[[bytes], bytes | None]) -> bytes | None:
    """Undoes `pack`; None when not all is there."""
    count = look_up(_count_key(name))
    if count is None:
        return None
    parts = [look_up(_part_key(name, part)) for part in range(int(count))]
    whole = [part for part in parts if part is not None]
    return b"".join(whole) if len(whole) == len(parts) else None


def _count_key(name: str) -> bytes:
    return f"parcel/{name}/parts".encode()


def _part_key(name: str, part: int) -> bytes:
    return f"parcel/{name}/{part}".encode()
