"""Arrays of more elements than 31 bits count, through every operation: `./dev large`, 10 GB."""
# ruff: noqa: T201 - whoever runs it reads what is printed

import time

import numpy as np

import horovod.array as hvd

ELEMENTS = 2**31 + 7


def main() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    own = np.zeros(ELEMENTS, np.uint8)
    places = [0, 2**31 - 1, 2**31, -1]

    def fill() -> None:
        own[places] = [rank + 1, rank + 2, rank + 3, rank + 4]

    def told(what: str, start: float) -> None:
        if rank == 0:
            print(f"{what}: {time.monotonic() - start:.1f} s", flush=True)

    for blocking in (True, False):
        kind = "blocking" if blocking else "asynchronous"
        fill()
        start = time.monotonic()
        if blocking:
            hvd.allreduce_(own, op=hvd.Max)
        else:
            hvd.synchronize(hvd.allreduce_async_(own, op=hvd.Max))
        assert own[places].tolist() == [size, size + 1, size + 2, size + 3]
        told(f"{kind} allreduce", start)
        fill()
        start = time.monotonic()
        if blocking:
            hvd.broadcast_(own, 1)
        else:
            hvd.synchronize(hvd.broadcast_async_(own, 1))
        assert own[places].tolist() == [2, 3, 4, 5]
        told(f"{kind} broadcast", start)
        fill()
        half = own[: 2**30 + 5]
        half[-1] = rank + 9
        start = time.monotonic()
        gathered = hvd.allgather(half) if blocking else hvd.synchronize(hvd.allgather_async(half))
        assert gathered.size == size * half.size
        assert [gathered[(r + 1) * half.size - 1] for r in range(size)] == [
            r + 9 for r in range(size)
        ]
        half[-1] = 0
        del gathered
        told(f"{kind} allgather", start)
        start = time.monotonic()
        if blocking:
            part = hvd.reducescatter(own, op=hvd.Sum)
        else:
            part = hvd.synchronize(hvd.reducescatter_async(own, op=hvd.Sum))
        assert part.size == ELEMENTS // size + (rank < ELEMENTS % size)
        if rank == size - 1:
            assert part[-1] == sum(range(4, size + 4))
        del part
        told(f"{kind} reducescatter", start)
        # Everything from each rank to its neighbour.
        splits = [ELEMENTS if to == (rank + 1) % size else 0 for to in range(size)]
        start = time.monotonic()
        received, counts = (
            hvd.alltoall(own, splits)
            if blocking
            else hvd.synchronize(hvd.alltoall_async(own, splits))
        )
        before = (rank - 1) % size
        assert list(counts) == [ELEMENTS if r == before else 0 for r in range(size)]
        assert received[places].tolist() == [before + 1, before + 2, before + 3, before + 4]
        del received
        told(f"{kind} alltoall", start)
    print("done", flush=True)


main()
