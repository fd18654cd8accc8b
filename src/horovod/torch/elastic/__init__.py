"""Training that goes on when ranks are lost, and when hosts come or go."""

from collections.abc import Callable
from typing import TypeVar

from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ["ElasticSampler", "TorchState", "run"]

Result = TypeVar("Result")


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function, whose first argument is a `State`.

    When a collective fails because a rank was lost, the state goes back to its last commit, the job
    is formed anew from the ranks that there are, rank 0's state is given to all, and the function
    is called again. When hosts come or go, the same happens at a commit, and nothing is lost.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
