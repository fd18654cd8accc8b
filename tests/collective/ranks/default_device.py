"""Has checks that name no device make their tensors on a GPU, as scripts with a default device."""

from collections.abc import Callable
from typing import Any

import torch

from collective.ranks.gpu_of_rank import place


def _moved(make: Callable[..., torch.Tensor], device: torch.device) -> Callable[..., torch.Tensor]:
    """The numbers that a generator of the CPU draws are the same on every device."""

    def made(*arguments: Any, **options: Any) -> torch.Tensor:
        if options.get("generator") is None or "device" in options:
            # PyTorch gives the default to those of its own functions that stand in their places.
            return make(*arguments, **{"device": device, **options})
        return make(*arguments, **options, device="cpu").to(device)

    return made


def use() -> None:
    """From now on, tensors are made where this rank's are to lie."""
    device = place()
    for name in ("rand", "randint", "randn", "randperm"):
        setattr(torch, name, _moved(getattr(torch, name), device))
    torch.set_default_device(device)


def with_buckets(*options: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Options of optimizers, and those for gradients in buckets, which are the CPU's memory."""
    if torch.ones(()).device.type != "cpu":
        return options
    return (*options, {"gradient_as_bucket_view": True})
