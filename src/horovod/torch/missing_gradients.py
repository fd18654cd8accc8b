"""Gradients for parameters that have none, because no backward pass has come to them."""

import torch


def gradient_dtype(parameter: torch.Tensor) -> torch.dtype:
    """The type of a parameter's gradients, which `Tensor.grad_dtype` may make another one's."""
    # Where that is None, any type may come. Older PyTorch has none, nor has what is no leaf.
    chosen = getattr(parameter, "grad_dtype", None) if parameter.is_leaf else None
    return parameter.dtype if chosen is None else chosen


def zeros_for(parameter: torch.Tensor) -> torch.Tensor:
    """A gradient of zeros."""
    return torch.zeros_like(parameter, dtype=gradient_dtype(parameter))


def no_rows_for(parameter: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A sparse gradient without values.

    Args:
        parameter: whose gradient it is.
        sparse_dimensions: how many of its dimensions the indices have.
    """
    return torch.sparse_coo_tensor(
        torch.empty((sparse_dimensions, 0), dtype=torch.int64, device=parameter.device),
        parameter.new_empty(
            (0, *parameter.shape[sparse_dimensions:]), dtype=gradient_dtype(parameter)
        ),
        parameter.shape,
        device=parameter.device,
        check_invariants=False,
    )


def forget_zeros(parameter: torch.Tensor) -> None:
    """Takes a gradient of zeros from a parameter: weight decay and momentum then leave it alone."""
    if (gradient := parameter.grad) is not None:
        sparse = gradient.layout is torch.sparse_coo
        values = gradient._values() if sparse else gradient  # noqa: SLF001 - of one not coalesced
        if not values.any():
            parameter.grad = None
