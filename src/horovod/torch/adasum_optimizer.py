"""The distributed optimizer for Adasum: what each rank's own step changes is summed adaptively."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from horovod.common.process_sets import size_of
from horovod.torch.adasum import require_power_of_2
from horovod.torch.gradients import Reduction
from horovod.torch.mpi_ops import Adasum, grouped_allreduce_async, synchronize
from horovod.torch.wrapping import derive, leaving_hooks_to_the_wrapped, require_passes


class AdasumStep(torch.optim.Optimizer):
    """Each rank steps with its own gradients; parameters move by the adaptive sum of the steps."""

    _reduction: Reduction

    @leaving_hooks_to_the_wrapped
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters with the steps of all ranks."""
        before = {
            parameter: parameter.detach().clone()
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.requires_grad
        }
        loss = super().step() if closure is None else super().step(closure)
        compression = self._reduction.compression
        pairs = [
            compression.compress(parameter.detach() - start) for parameter, start in before.items()
        ]
        handle = grouped_allreduce_async(
            [compressed for compressed, _ in pairs],
            name="adasum.deltas",
            op=Adasum,
            process_set=self._reduction.process_set,
        )
        summed = synchronize(handle)
        for (parameter, start), delta, (_, context) in zip(
            before.items(), summed, pairs, strict=True
        ):
            parameter.detach().copy_(start + compression.decompress(delta, context))
        return loss

    def synchronize(self) -> None:
        """Does nothing: there is nothing to wait for before a step."""

    def skip_synchronize(self) -> contextlib.AbstractContextManager[None]:
        """Not possible here.

        Raises:
            AssertionError: always, with Horovod's text.
        """
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number of passes adds up locally before a step."""
        require_passes(passes)


def wrap_for_adasum(optimizer: torch.optim.Optimizer, reduction: Reduction) -> Any:
    """Wraps an optimizer; see `DistributedOptimizer`.

    Raises:
        NotImplementedError: the number of ranks is not a power of two.
    """
    require_power_of_2(size_of(reduction.process_set))
    wrapped = derive(optimizer, AdasumStep)
    wrapped._reduction = reduction  # noqa: SLF001 - its own, set here as it has no constructor
    return wrapped
