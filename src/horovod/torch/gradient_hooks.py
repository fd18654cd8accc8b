"""Following the gradients of parameters, which live longer than their optimizers."""

import weakref
from typing import Any, Protocol, TypeVar

import torch

Parameter = torch.Tensor
Followed_contra = TypeVar("Followed_contra", contravariant=True)


class Counts(Protocol[Followed_contra]):
    """What is told about gradients."""

    def count(self, gradient: Followed_contra, /) -> None:
        """A backward pass has added to a gradient."""


def follow(
    parameter: Parameter, reducer: Counts[Followed_contra], gradient: Followed_contra
) -> Any:
    """Tells a reducer about a parameter's gradient, without keeping the reducer alive.

    Args:
        parameter: whose gradient it is.
        reducer: what is told.
        gradient: by which the reducer knows the gradient.

    Returns:
        The hook, for `remove`.
    """
    reference = weakref.ref(reducer)

    def on_gradient(_: Parameter) -> None:
        if (alive := reference()) is not None:
            alive.count(gradient)

    untyped: Any = parameter
    return untyped.register_post_accumulate_grad_hook(on_gradient)


def remove(hooks: list[Any]) -> None:
    """Ends what `follow` has begun."""
    for hook in hooks:
        hook.remove()
