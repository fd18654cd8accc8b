"""Following the gradients of parameters, which live longer than their optimizers."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import torch

from horovod.torch.parameter_names import advise_on_taken_name

Parameter = torch.Tensor
Followed_contra = TypeVar("Followed_contra", contravariant=True)

# What autograd executes in this thread, for tracing and anomaly detection.
_executed: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)  # noqa: SLF001 - there is no other way


class Counts(Protocol[Followed_contra]):
    """What is told about gradients."""

    def count(self, gradient: Followed_contra, arrived: torch.Tensor | None, /) -> None:
        """A backward pass has added what has arrived to a gradient."""


class GradientHook:
    """Tells a reducer about a parameter's gradient, without keeping the reducer alive.

    As Horovod's, it is a hook of autograd's node that adds to the gradient. PyTorch calls it after
    what scripts have registered by `Tensor.register_post_accumulate_grad_hook`, be it before or
    after this one: what they make of the gradient is what travels. Autograd keeps the node only
    while a graph needs it, so that whoever follows a gradient keeps this object.

    Args:
        parameter: whose gradient it is.
        reducer: what is told, unless hooks of the script's have used up the gradient.
        gradient: by which the reducer knows the gradient.
        handles: gets what ends the calls, for `remove`; these keep nothing alive.
    """

    __slots__ = ("_gradient", "_handles", "_node", "_parameter", "_reducer", "_used")

    def __init__(
        self,
        parameter: Parameter,
        reducer: Counts[Followed_contra],
        gradient: Followed_contra,
        handles: list[Any],
    ) -> None:
        self._parameter = parameter
        self._reducer = weakref.ref(reducer)
        self._gradient = gradient
        self._handles = handles
        self._node: Any = None
        self._used = False
        self.renew()

    def _on_gradient(self, _: Any, arrived: Sequence[torch.Tensor | None]) -> None:
        if self._used:
            self._used = False
        elif self._parameter.grad is not None and (reducer := self._reducer()) is not None:
            try:
                reducer.count(self._gradient, arrived[0])
            except ValueError as error:
                advise_on_taken_name(error)
                raise

    def renew(self) -> bool:
        """Is called for a gradient that a step finds, and of which nothing has been told.

        A hook of the script's may make the step: what is told after it would be of a gradient that
        has been used. Or another node adds to the gradient, and is followed from now on: parameters
        have a new one after `Module.double()` or `Module.to(device)`.

        Returns:
            Whether it is another node, so that backward passes may have gone unseen.
        """
        if not self._parameter.requires_grad:
            return False
        node = _node(self._parameter)
        self.use(node)
        if node is self._node:
            return False
        self._node = node
        self._handles.append(node.register_hook(self._on_gradient))
        return True

    def use(self, node: Any = None) -> None:
        """Is called for a gradient that a step uses: as above, a hook of the script's may make it.

        Args:
            node: of autograd that adds to the gradient, if it may be another one by now.
        """
        self._used = (self._node if node is None else node) is _executed()


def _node(parameter: Parameter) -> Any:
    """Autograd's node that adds to a parameter's gradient."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        strided = parameter.layout is torch.strided  # others have no views
        used: Any = parameter.view_as(parameter) if strided else parameter.clone()
    return used.grad_fn.next_functions[0][0]


def remove(handles: list[Any]) -> None:
    """Ends the calls of hooks."""
    for handle in handles:
        handle.remove()
