"""Following the gradients of parameters, which live longer than their optimizers."""

import weakref
from collections.abc import Callable
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
    if hasattr(untyped, "register_post_accumulate_grad_hook"):
        return untyped.register_post_accumulate_grad_hook(on_gradient)
    return _AccumulatorHook(untyped, on_gradient)


class _AccumulatorHook:
    """A hook of PyTorch 2.0, whose tensors know none that is called after a gradient has grown.

    It is called by what adds to the gradient, which autograd keeps only while a graph needs it.
    """

    def __init__(self, parameter: Any, on_gradient: Callable[[Parameter], None]) -> None:
        self._accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        self._hook = self._accumulator.register_hook(lambda *_: on_gradient(parameter))

    def remove(self) -> None:
        """Ends the calls."""
        self._hook.remove()


def remove(hooks: list[Any]) -> None:
    """Ends what `follow` has begun."""
    for hook in hooks:
        hook.remove()
