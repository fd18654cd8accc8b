"""How gradients are reduced, and the texts for passes and steps in an order that cannot be."""

import functools
from dataclasses import dataclass

from horovod.common.process_sets import ProcessSet
from horovod.torch.compression import Compressor

TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step()."
    " Increase backward_passes_per_step to accumulate gradients locally."
)
ZERO_GRAD_PROHIBITED = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or"
    " optimizer.synchronize(). This is prohibited as it can cause a race condition."
)
ZERO_GRAD_TOO_EARLY = (
    f"{ZERO_GRAD_PROHIBITED} Or a GradScaler has skipped the step: call optimizer.synchronize()"
    " before scaler.step()."
)


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced.

    Attributes:
        predivide: gradients are divided by it before the sum and multiplied after it.
        op: Average, Sum, Min, Max, Product or Adasum.
        sparse_as_dense: whether sparse gradients travel dense, like the others.
    """

    op: int
    compression: type[Compressor]
    predivide: float
    process_set: ProcessSet
    sparse_as_dense: bool = False

    @functools.cached_property
    def how(self) -> tuple[int, float, float, ProcessSet]:
        """The op, the factors before and after, and whose ranks take part."""
        return self.op, 1.0 / self.predivide, self.predivide, self.process_set
