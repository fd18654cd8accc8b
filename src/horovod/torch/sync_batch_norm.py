"""Batch normalisation over the batches of all ranks."""

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common.process_sets import global_process_set
from horovod.torch.mpi_ops import Sum, allgather, allreduce, is_initialized, size


class SyncBatchNorm(_BatchNorm):
    """`torch.nn.BatchNorm*d` with mean and variance of all ranks' batches while it trains.

    Ranks may have batches of different sizes. Gradients of weight and bias are those of the own
    batch, as those of all other parameters are; the distributed optimizer reduces them.

    Args:
        num_features: C of an input of shape (N, C, ...).
        eps: added to the variance.
        momentum: of the running statistics; None for a cumulative average.
        affine: whether there are a weight and a bias.
        track_running_stats: whether running statistics are kept for evaluation.
        more: what else the installed PyTorch's modules take: `device`, `dtype`, of late `bias`.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,  # noqa: FBT001, FBT002 - PyTorch's signature
        track_running_stats: bool = True,  # noqa: FBT001, FBT002 - as above
        **more: Any,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **more)

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - PyTorch's name
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - PyTorch's name
        """Normalises the input; all ranks must call it equally often while they train."""
        self._check_input_dim(input)
        if self.training or self.running_mean is None or self.running_var is None:
            return self._maybe_run_sync_bn(input)
        return torch.nn.functional.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=False,
            momentum=0.0,
            eps=self.eps,
        )

    # TorchScript, which knows nothing of ranks, keeps what evaluates and leaves this out.
    @torch.jit.unused
    def _maybe_run_sync_bn(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - as above
        """Normalises by the batches' statistics, of all ranks where there are several."""
        if not (is_initialized() and size() > 1):
            return super().forward(input)
        self._require_usable(input)
        momentum = self.momentum
        running: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
        # Users change both later. Without the counter, momentum=None moves nothing.
        if self.training and self.track_running_stats:
            running = (self.running_mean, self.running_var)
            if self.num_batches_tracked is not None:
                batches = self.num_batches_tracked.add_(1)
                momentum = 1.0 / batches.item() if momentum is None else momentum
        return _SyncBatchNorm.apply(input, self.weight, self.bias, *running, self.eps, momentum)

    def _require_usable(self, input: torch.Tensor) -> None:  # noqa: A002 - as above
        """Refuses what PyTorch's operation refuses: sums over channels would fit anything.

        Raises:
            RuntimeError: its channels are not those of the module, or its numbers are no floats.
        """
        if not input.is_floating_point():
            raise RuntimeError(f"batch norm needs floating-point input, got {input.dtype}")
        for name in ("running_mean", "weight"):
            values = getattr(self, name)
            if values is not None and values.numel() != input.shape[1]:
                raise RuntimeError(
                    f"{name} should contain {input.shape[1]} elements not {values.numel()}: the"
                    f" input has the shape {tuple(input.shape)}"
                )


class _SyncBatchNorm:
    """The calculation under Horovod's name, where it is a function of autograd's."""

    @staticmethod
    def apply(
        input: torch.Tensor,  # noqa: A002 - PyTorch's name
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        running_mean: torch.Tensor | None,
        running_var: torch.Tensor | None,
        eps: float,
        momentum: float | None,
    ) -> torch.Tensor:
        """Normalises all ranks' batches together.

        Args:
            input: this rank's batch.
            weight: multiplies the result, by channel; None for 1.
            bias: is added to it; None for 0.
            running_mean: goes towards the batches' mean; None for none.
            running_var: goes towards their variance; None for none.
            eps: added to the variance.
            momentum: how far the running statistics go; None for not at all.
        """
        count, mean, variance = _gather_statistics(input)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        for running, now in ((running_mean, mean), (running_var, unbiased)):
            if running is not None and momentum is not None:
                with torch.no_grad():
                    # As in PyTorch, batches without a number say nothing about the next ones, and
                    # a variance that 16 bits cannot hold counts by its part.
                    wide = running.to(torch.promote_types(running.dtype, now.dtype))
                    towards = torch.where(count > 0, now.to(wide.dtype), wide)
                    running.copy_(torch.lerp(wide, towards, momentum))
        count = count.clamp(min=1)
        result: torch.Tensor = _Normalise.apply(input, eps, count, mean, variance)  # type: ignore[no-untyped-call]
        if weight is not None:
            result = result * _by_channel(weight, result)
        if bias is not None:
            result = result + _by_channel(bias, result)
        return result.to(input.dtype)


def _accumulating(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _by_channel(values: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return values.to(tensor.dtype).reshape(1, -1, *[1] * (tensor.dim() - 2))


def _others(tensor: torch.Tensor) -> list[int]:
    """All dimensions but that of the channels."""
    return [0, *range(2, tensor.dim())]


@torch.no_grad()
def _gather_statistics(
    tensor: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Count, mean and biased variance per channel over all ranks' batches: 0 where all are empty.

    Each rank's deviations are taken from its own mean (Chan et al., 1979), which keeps the
    precision that a sum of squares loses.
    """
    values = tensor.to(_accumulating(tensor.dtype))
    own_count = values.numel() // max(values.shape[1], 1)
    own_mean = values.sum(_others(values)) / max(own_count, 1)
    own_square = (values - _by_channel(own_mean, values)).square().sum(_others(values))
    own = torch.cat([own_mean.new_tensor([own_count]), own_mean, own_square])
    everyones = allgather(own.unsqueeze(0), name="sync_batch_norm.statistics")
    channels = tensor.shape[1]
    counts = everyones[:, :1]
    means, squares = everyones[:, 1 : channels + 1], everyones[:, channels + 1 :]
    count = counts.sum()
    mean = (counts * means).sum(0) / count.clamp(min=1)
    variance = (squares + counts * (means - mean).square()).sum(0) / count.clamp(min=1)
    return count, mean, variance


def _moments(
    values: torch.Tensor, count: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean, and what deviations are multiplied by, with gradients that lead to all ranks."""

    def mean_of(own: torch.Tensor) -> torch.Tensor:
        return allreduce(own.sum(_others(own)), name="sync_batch_norm.moments", op=Sum) / count

    mean = mean_of(values)
    return mean, torch.rsqrt(mean_of((values - _by_channel(mean, values)).square()) + eps)


class _Normalise(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps), where mean and variance depend on all ranks' x.

    The result has the statistics' type; who rounds it to the input's does so once, after the last
    step, and gradients come without a rounding before.
    """

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        eps: float,
        count: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
    ) -> torch.Tensor:
        values = tensor.to(mean.dtype)
        scale = torch.rsqrt(variance + eps)
        normalised = (values - _by_channel(mean, values)) * _by_channel(scale, values)
        ctx.save_for_backward(tensor, count, mean, scale)
        ctx.eps = eps
        return normalised

    @staticmethod
    def backward(ctx: Any, above: torch.Tensor) -> Any:
        tensor, count, mean, scale = ctx.saved_tensors
        values = tensor.to(mean.dtype)
        if torch.is_grad_enabled():  # for a second derivative: how these depend on the input
            mean, scale = _moments(values, count, ctx.eps)
        normalised = (values - _by_channel(mean, values)) * _by_channel(scale, values)
        own = torch.cat([above.sum(_others(above)), (above * normalised).sum(_others(above))])
        sums = allreduce(
            own, name="sync_batch_norm.gradients", op=Sum, process_set=global_process_set
        )
        mean_grad, mean_product = (sums / count).chunk(2)
        own_share = (
            above - _by_channel(mean_grad, above) - normalised * _by_channel(mean_product, above)
        )
        return (own_share * _by_channel(scale, above)).to(tensor.dtype), None, None, None, None
