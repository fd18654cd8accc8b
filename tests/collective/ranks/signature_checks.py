"""Names and arguments of the PyTorch front end are Horovod's, in its order."""

import inspect
import sys

import pytest
import torch

import horovod.torch as hvd
from horovod.common import elastic as common_elastic
from horovod.common import util
from horovod.common.util import (
    EXTENSIONS,
    get_average_backwards_compatibility_fun,
)
from horovod.torch import mpi_ops
from horovod.torch.optimizer import _DistributedOptimizer

REDUCTION = "op prescale_factor=1.0 postscale_factor=1.0 process_set"
SIGNATURES = {
    "allreduce": f"tensor average=None name=None compression {REDUCTION}",
    "allreduce_async": f"tensor average=None name=None {REDUCTION}",
    "allreduce_": f"tensor average=None name=None {REDUCTION}",
    "allreduce_async_": f"tensor average=None name=None {REDUCTION}",
    "grouped_allreduce": f"tensors average=None name=None compression {REDUCTION}",
    "grouped_allreduce_async": f"tensors average=None name=None {REDUCTION}",
    "grouped_allreduce_": f"tensors average=None name=None {REDUCTION}",
    "grouped_allreduce_async_": f"tensors average=None name=None {REDUCTION}",
    "sparse_allreduce_async": "tensor name op process_set",
    "allgather": "tensor name=None process_set output=None",
    "allgather_async": "tensor name=None process_set output=None",
    "grouped_allgather": "tensors name=None process_set",
    "grouped_allgather_async": "tensors name=None process_set",
    "broadcast": "tensor root_rank name=None process_set",
    "broadcast_async": "tensor root_rank name=None process_set",
    "broadcast_": "tensor root_rank name=None process_set",
    "broadcast_async_": "tensor root_rank name=None process_set",
    "alltoall": "tensor splits=None name=None process_set output=None",
    "alltoall_async": "tensor splits=None name=None process_set output=None",
    "reducescatter": (
        "tensor name=None compression op process_set prescale_factor=1.0 postscale_factor=1.0"
        " output=None"
    ),
    "reducescatter_async": (
        "tensor name=None op process_set prescale_factor=1.0 postscale_factor=1.0 output=None"
    ),
    "grouped_reducescatter": (
        "tensors name=None compression op process_set prescale_factor=1.0 postscale_factor=1.0"
    ),
    "grouped_reducescatter_async": (
        "tensors name=None op process_set prescale_factor=1.0 postscale_factor=1.0"
    ),
    "join": "device=-1",
    "barrier": "process_set",
    "poll": "handle",
    "synchronize": "handle",
    "broadcast_parameters": "params root_rank",
    "broadcast_optimizer_state": "optimizer root_rank model=None",
    "broadcast_object": "obj root_rank=0 name=None process_set",
    "allgather_object": "obj name=None",
    "DistributedOptimizer": (
        "optimizer named_parameters=None compression backward_passes_per_step=1 op"
        " gradient_predivide_factor=1.0 num_groups=0 groups=None sparse_as_dense=False process_set"
        " gradient_as_bucket_view=False bucket_cap_mb=None"
    ),
    "SyncBatchNorm": "num_features eps=1e-05 momentum=0.1 affine=True track_running_stats=True"
    " **more",
    "init": "comm=None process_sets=None",
    "add_process_set": "process_set",
    "remove_process_set": "process_set",
    "start_timeline": "file_path mark_cycles=False all_ranks=None",
}
WITHOUT_ARGUMENTS = (
    "shutdown is_initialized stop_timeline size local_size cross_size rank local_rank cross_rank"
    " mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built ddl_built"
    " ccl_built cuda_built rocm_built _check_has_gpu"
)
OBJECTS = (
    "Average Sum Adasum Min Max Product ProcessSet global_process_set HorovodInternalError"
    " Compression elastic"
)
MPI_OPS = (
    "is_homogeneous add_process_set remove_process_set Compression _basics"
    " handle_average_backwards_compatibility HorovodAllgather HorovodAllreduce HorovodAlltoall"
    " HorovodBroadcast HorovodGroupedAllgather HorovodGroupedAllreduce HorovodGroupedReducescatter"
    " HorovodReducescatter"
)
STARRED_MPI_OPS = (
    "init shutdown is_homogeneous handle_average_backwards_compatibility num_rank_is_power_2"
    " gpu_available check_installed_version get_average_backwards_compatibility_fun Compression"
    " HorovodInternalError ProcessSet Average Sum Adasum Min Max Product join barrier allreduce"
)
STARRED_OPTIMIZER = (
    "DistributedOptimizer Compression ProcessSet global_process_set Average Adasum Sum size"
    " synchronize allreduce_async_ grouped_allreduce_async_ sparse_allreduce_async rocm_built"
    " broadcast_object split_list"
)
ELASTIC = {
    "run": "func",
    "TorchState": "model=None optimizer=None **kwargs",
    "ElasticSampler": "dataset shuffle=True seed=0",
}
STATE = (
    "register_reset_callbacks on_reset on_hosts_updated commit check_host_updates save restore"
    " sync reset"
)


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)


def described(function: object) -> str:
    """The parameters, and those defaults that are plain values."""
    assert callable(function)
    words = []
    for parameter in inspect.signature(function).parameters.values():
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        plain = isinstance(parameter.default, int | float | None) and parameter.name != "op"
        words.append(
            f"{stars}{parameter.name}" + (f"={parameter.default}" if plain and not stars else "")
        )
    return " ".join(words)


def check_signatures_are_horovods() -> None:
    for name, expected in SIGNATURES.items():
        assert described(getattr(hvd, name)) == expected, name
    for name in WITHOUT_ARGUMENTS.split():
        assert described(getattr(hvd, name)) == "", name
    for name, expected in ELASTIC.items():
        assert described(getattr(hvd.elastic, name)) == expected, name


def check_names_are_horovods() -> None:
    for name in OBJECTS.split():
        assert hasattr(hvd, name), name
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == list(range(6))
    for name in SIGNATURES:
        if name not in ("DistributedOptimizer", "SyncBatchNorm") and "object" not in name:
            assert hasattr(mpi_ops, name) or name.startswith(("broadcast_p", "broadcast_opt")), name
    for name in MPI_OPS.split():
        assert hasattr(mpi_ops, name), name
    assert type(hvd.DistributedOptimizer(sgd())).step is _DistributedOptimizer.step
    for name in STATE.split():
        assert callable(getattr(common_elastic.ObjectState, name)), name
    for name in ("none", "fp16", "bf16"):
        assert hasattr(hvd.Compression, name)


def check_a_reduction_is_named_in_either_way() -> None:
    choose = get_average_backwards_compatibility_fun(mpi_ops._basics)
    assert choose(None, None) == hvd.Average == mpi_ops._basics.Average
    assert choose(hvd.Adasum, None) == hvd.Adasum
    with pytest.warns(DeprecationWarning, match="has been replaced with `op`"):
        assert choose(None, False) == hvd.Sum  # noqa: FBT003 - Horovod's signature
    with (
        pytest.warns(DeprecationWarning, match="has been replaced"),
        pytest.raises(ValueError, match="supersedes average"),
    ):
        choose(hvd.Sum, True)  # noqa: FBT003 - as above


def check_what_is_built_in_is_said_truthfully() -> None:
    assert "torch" in EXTENSIONS
    assert hvd.gloo_built()
    assert hvd.gloo_enabled()
    assert hvd.mpi_built() in (True, False)  # as the machine has one, or not
    assert not hvd.mpi_enabled()
    with pytest.raises(ValueError, match="MPI is not enabled"):
        hvd.mpi_threads_supported()
    assert not hvd.ddl_built()
    assert not hvd.ccl_built()


def check_everything_may_be_imported_by_a_star() -> None:
    for module, names in (
        ("mpi_ops", f"{STARRED_MPI_OPS} {WITHOUT_ARGUMENTS.replace('_check_has_gpu', '')}"),
        ("optimizer", STARRED_OPTIMIZER),
    ):
        imported: dict[str, object] = {}
        exec(f"from horovod.torch.{module} import *", imported)  # noqa: S102 - what users write
        assert set(names.split()) <= imported.keys(), module
        origin = sys.modules[f"horovod.torch.{module}"]
        for name in names.split():
            assert imported[name] is getattr(origin, name)
    assert hvd.check_extension is util.check_extension
    assert mpi_ops.num_rank_is_power_2(4)
    mpi_ops.check_installed_version("pytorch", torch.__version__)


def check_a_process_set_is_written_as_horovods() -> None:
    ranks = list(range(hvd.size()))
    whole = f"ProcessSet(process_set_id=0, ranks={ranks}, mpi_comm=None)"
    assert str(hvd.global_process_set) == whole
    mine = hvd.ProcessSet([1, 0])
    assert str(mine) == "ProcessSet(process_set_id=None, ranks=[0, 1], mpi_comm=None)"
    mine.ranks = [2, 1]
    assert mine.ranks == [1, 2]
    with pytest.raises(ValueError, match="stay; make another ProcessSet"):
        hvd.global_process_set.ranks = [0]
