"""What the collectives have in common where they take part in automatic differentiation."""

import types
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

# Where PyTorch keeps the level of forward-mode differentiation, below 0 outside of any. Blocking
# calls look at it in place, because a function of ours would cost them five times as much.
FORWARD_MODE: Any = (
    forward_ad
    if hasattr(forward_ad, "_current_level")
    else types.SimpleNamespace(_current_level=-1)
)


# Of transforms and tracers, whose tensors have no memory to send.
OUTSIDE = (
    "collectives can be neither transformed by torch.func (grad, vmap, jvp, jacrev, ...) nor traced"
    " (FakeTensorMode, make_fx, torch.export); call them outside of it, on its results"
)

_transforms_active: Callable[[], bool] = getattr(
    torch._C,  # noqa: SLF001 - autograd's functions ask the same
    "_are_functorch_transforms_active",
    lambda: False,
)


def needs_gradient(tensor: object) -> bool:
    """Whether a call has to go through autograd, which costs more than a small reduction."""
    if not isinstance(tensor, torch.Tensor):
        return False
    return (tensor.requires_grad and torch.is_grad_enabled()) or _has_tangent(tensor)


def _has_tangent(tensor: torch.Tensor) -> bool:
    if FORWARD_MODE._current_level < 0:  # noqa: SLF001 - see above
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def refuse_tangent(tensor: object) -> None:
    """Refuses a tensor with a tangent where that would be lost, or stay beside another value.

    Within the functions of autograd's, which have answered for their tensors, none has one.

    Raises:
        NotImplementedError: it has one.
    """
    if isinstance(tensor, torch.Tensor) and _has_tangent(tensor):
        raise NotImplementedError(
            "the tensor has a tangent, but operations in place, asynchronous ones and output= take"
            " no part in forward-mode differentiation; use hvd.allreduce with op=Average or op=Sum,"
            " or pass torch.autograd.forward_ad.unpack_dual(tensor).primal"
        )


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Runs a function of autograd's.

    Raises:
        NotImplementedError: torch.func transforms the code that calls it.
    """
    if _transforms_active():
        raise NotImplementedError(
            f"{OUTSIDE}. Gradients of collectives: tensor.backward(), torch.autograd.grad"
            " and torch.autograd.forward_ad"
        )
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def tangent_name(name: str | None) -> str | None:
    """The name of the operation on the tangents of another one's tensors."""
    return None if name is None else f"{name}.tangent"


def gradient_name(name: str | None) -> str | None:
    """The name of the operation that the backward pass of another one starts."""
    return None if name is None else f"{name}.grad"


def refuse_gradient(tensor: object) -> None:
    """Refuses a tensor that needs a gradient where the caller has given an output.

    Raises:
        ValueError: it needs one.
        NotImplementedError: it has a tangent.
    """
    refuse_tangent(tensor)
    if needs_gradient(tensor):
        raise ValueError(
            "output= takes no part in automatic differentiation, but the tensor needs a gradient;"
            " leave output out, or call under torch.no_grad()"
        )
