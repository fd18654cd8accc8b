"""Operations on one tensor, of which the later one reads what the earlier one has written."""

from typing import Any

import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.torch.compression import Compressor

TIMES = 60
LENGTH = 40_000


def _own() -> torch.Tensor:
    return torch.full((LENGTH,), float(hvd.rank()))


def _average() -> float:
    return (hvd.size() - 1) / 2


def _is(tensor: torch.Tensor, value: float) -> bool:
    return bool(tensor.isclose(torch.tensor(value)).all())


def check_two_operations_on_one_tensor() -> None:
    """An average of averages is the average, if each is one of the whole tensor."""
    for time in range(TIMES):
        tensor = _own()
        handles = [hvd.allreduce_async_(tensor, name=f"{time}.{name}") for name in "ab"]
        for handle in handles if time % 2 == 0 else reversed(handles):
            hvd.synchronize(handle)
        assert _is(tensor, _average()), time


def check_a_tensor_that_is_on_its_way_is_read() -> None:
    for time in range(TIMES):
        tensor = _own()
        handle = hvd.allreduce_async_(tensor, name="in place", op=hvd.Sum)
        if time % 3 == 0:
            read = hvd.allreduce(tensor, name="read")
        elif time % 3 == 1:
            read = hvd.allgather(tensor[-2:], name="read").mean()
        else:
            read = hvd.grouped_allreduce([tensor[1:], torch.ones(1)], name="read")[0]
        assert _is(read, hvd.size() * _average()), time
        hvd.synchronize(handle)


def check_a_part_that_is_written_while_the_whole_is_on_its_way() -> None:
    for _ in range(TIMES):
        tensor = _own()
        whole = hvd.allreduce_async(tensor, name="whole", op=hvd.Sum)
        part = hvd.broadcast_async_(tensor[5:10], 0, name="part")
        assert _is(hvd.synchronize(part), 0.0)
        assert _is(hvd.synchronize(whole), hvd.size() * _average())
        assert _is(tensor[10:], float(hvd.rank()))


def check_ranks_may_start_them_in_different_orders() -> None:
    tensor = _own()
    names = ("one", "other") if hvd.rank() == 0 else ("other", "one")
    handles = [hvd.allreduce_async_(tensor, name=name) for name in names]
    for handle in reversed(handles):
        hvd.synchronize(handle)
    hvd.barrier()


def check_what_waits_for_memory_runs_before_a_join() -> None:
    for time in range(TIMES):
        tensor = _own()
        whole = hvd.allreduce_async_(tensor, name="whole", op=hvd.Sum)
        read = hvd.allreduce_async(tensor, name="read")
        hvd.join()
        assert _is(hvd.synchronize(read), hvd.size() * _average()), time
        hvd.synchronize(whole)


def check_what_waits_for_memory_runs_before_its_process_set_is_removed() -> None:
    everyone = list(range(hvd.size()))
    for time in range(TIMES // 3):
        process_set = hvd.add_process_set(everyone[:-1])
        tensor = _own()
        whole = hvd.allreduce_async_(tensor, name="whole", op=hvd.Sum)
        reads = [hvd.allreduce_async(tensor, name="read")]
        if process_set.included():
            reads.append(hvd.allreduce_async(tensor, name="inside", process_set=process_set))
        hvd.remove_process_set(process_set)
        assert all(_is(hvd.synchronize(read), hvd.size() * _average()) for read in reads), time
        hvd.synchronize(whole)


class Doubled(Compressor):
    """A compressor of the script's own, which makes copies."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        return tensor.double(), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        return tensor.to(ctx)


def check_two_optimizers_of_one_parameter() -> None:
    """Both get the average, and write it where the other has its own."""
    plain: dict[str, Any] = {}
    groups: dict[str, Any] = {"groups": 1}
    converted: dict[str, Any] = {"compression": hvd.Compression.bf16}
    doubled: dict[str, Any] = {"compression": Doubled}
    pairs = ((plain, plain), (groups, groups), (converted, plain), (doubled, plain))
    for options in (*pairs, (plain, doubled)):
        weight = torch.nn.Parameter(torch.zeros(LENGTH))
        both = [
            hvd.DistributedOptimizer(
                torch.optim.SGD([weight], lr=1.0), named_parameters=[(name, weight)], **own
            )
            for name, own in zip(("first", "second"), options, strict=True)
        ]
        for step in range(1, TIMES // 3):
            for optimizer in both:
                optimizer.zero_grad(set_to_none=step % 2 == 0)
            run_backward((weight * _own()).sum())
            for optimizer in both:
                optimizer.step()
            assert _is(weight, -2 * step * _average()), (options, step)
