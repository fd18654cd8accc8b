"""What the collectives have in common where they take part in automatic differentiation."""

from typing import Any

import torch


def needs_gradient(tensor: object) -> bool:
    """Whether a call has to go through autograd, which costs more than a small reduction."""
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Runs a function of autograd's."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def gradient_name(name: str | None) -> str | None:
    """The name of the operation that the backward pass of another one starts."""
    return None if name is None else f"{name}.grad"


def refuse_gradient(tensor: object) -> None:
    """Refuses a tensor that needs a gradient where the caller has given an output.

    Raises:
        ValueError: it needs one.
    """
    if needs_gradient(tensor):
        raise ValueError(
            "output= takes no part in automatic differentiation, but the tensor needs a gradient;"
            " leave output out, or call under torch.no_grad()"
        )
