"""Process sets, ranks that have joined, and jobs that end, on a GPU if each rank has one."""

import contextlib
import gc

import torch

import horovod.torch as hvd
from collective.ranks.compared_results import FLOATS, INTEGERS, comes, total
from collective.ranks.gpu_of_rank import has_gpus, place
from horovod.common.exceptions import HorovodInternalError


def check_process_sets_in_between() -> None:
    mine = torch.full((1000,), hvd.rank() + 1.0, device=place())
    for _ in range(2 if hvd.size() > 1 else 0):
        alone = hvd.add_process_set([hvd.size() - 1])
        ends = hvd.size() > 2 and hvd.add_process_set([0, hvd.size() - 1])
        handles = [hvd.allreduce_async(mine, op=hvd.Sum)]
        results = [float(total())]
        if alone.included():
            handles.append(hvd.allreduce_async(mine, op=hvd.Sum, process_set=alone))
            handles.append(hvd.allgather_async(mine, process_set=alone))
            results += [float(hvd.size())] * 2
        if ends and ends.included():
            handles.append(hvd.allreduce_async(mine, op=hvd.Sum, process_set=ends))
            results.append(1.0 + hvd.size())
        handles.append(hvd.allreduce_async(mine, op=hvd.Max))
        results.append(float(hvd.size()))
        for handle, wanted in zip(handles, results, strict=True):
            assert comes(handle, "an operation of a process set").eq(wanted).all()
        for made in (alone, ends):
            if made:
                hvd.remove_process_set(made)
    assert hvd.allreduce(mine, op=hvd.Sum).eq(total()).all()


def check_ranks_that_have_joined_under_factors_and_types() -> None:
    last = hvd.size() - 1
    hvd.allreduce(torch.ones(1, device=place()))
    if hvd.rank() != last:
        handles, wanted = [], []
        for number, dtype in enumerate((*FLOATS, *INTEGERS)):
            for factor in (1.0, 2.0):
                mine = torch.full((100 + number,), 2, dtype=dtype, device=place())
                handles.append(
                    hvd.allreduce_async(
                        mine, op=hvd.Sum, name=f"joined {number} {factor}", prescale_factor=factor
                    )
                )
                wanted.append(2 * factor * last)
        group = [torch.ones(count, device=place()) for count in (1, 1001, 0, 7)]
        packed = hvd.grouped_allreduce(group, op=hvd.Average, compression=hvd.Compression.fp16)
        for each in packed:
            assert torch.allclose(each, torch.full_like(each, last / hvd.size()), rtol=1e-3), each
        for handle, value in zip(handles, wanted, strict=True):
            found = comes(handle, "an operation with a joined rank")
            assert found.eq(value).all(), (found.dtype, value, found[:3])
    hvd.join(place().index if has_gpus() else -1)
    assert hvd.allreduce(torch.ones(2, device=place()), op=hvd.Sum).eq(hvd.size()).all()


def check_results_outlive_their_job() -> None:
    mine = torch.full((hvd.rank() + 1, 1000), hvd.rank() + 1.0, device=place())
    unlike = hvd.allgather(mine)  # on a GPU, memory of the core's
    alike = hvd.allgather(mine[:1])
    left = hvd.allreduce_async(mine[0], op=hvd.Sum)  # which nobody waits for in its job
    hvd.barrier()
    hvd.shutdown()
    hvd.init()
    assert unlike.sum(0).eq(sum((r + 1) ** 2 for r in range(hvd.size()))).all()
    assert alike.sum(0).eq(total()).all()
    with contextlib.suppress(HorovodInternalError):
        given = hvd.synchronize(left)
        assert given is None or given.eq(total()).all()
    del unlike, alike
    gc.collect()
    assert hvd.allreduce(mine[0], op=hvd.Sum).eq(total()).all()
