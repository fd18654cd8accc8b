"""One bucket: where gradients lie that are reduced together."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from horovod.torch.bucket_layout import view_of
from horovod.torch.gradients_in_flight import Parameter
from horovod.torch.long_copies import copy_into


@dataclass(eq=False)
class Bucket:
    """Gradients that are reduced together.

    Attributes:
        offsets: where the gradients lie in `flat`, in elements.
        views: the gradients, parts of `flat`.
        missing: those that are not complete yet.
        versions: of the gradients when they were sent, until they are looked at again.
        handle: of the reduction on its way.
        landed: whether it has come; the next step forgets both.
    """

    name: str
    flat: torch.Tensor
    offsets: Mapping[Parameter, int]
    views: dict[Parameter, torch.Tensor] = field(init=False)
    missing: set[Parameter] = field(init=False)
    versions: dict[Parameter, int | None] = field(default_factory=dict)
    handle: int | None = None
    landed: bool = False

    def __post_init__(self) -> None:
        self.views = {each: view_of(self.flat, at, each) for each, at in self.offsets.items()}
        self.missing = set(self.offsets)

    def take(self, parameter: Parameter) -> None:
        """Puts a complete gradient into its place."""
        view, gradient = self._view_in_place(parameter), parameter.grad
        if gradient is view:
            return
        with torch.no_grad():
            if gradient is None:
                # Another rank may have one, as models may differ in what they execute.
                view.zero_()
            else:
                copy_into(view, gradient)
        parameter.grad = view

    def _view_in_place(self, parameter: Parameter) -> torch.Tensor:
        view, at = self.views[parameter], self.offsets[parameter]
        if view.data_ptr() != self.flat.data_ptr() + at * self.flat.element_size():
            # Its memory has been exchanged: `gradient.data = ...`, or a conversion of the model.
            view = self.views[parameter] = view_of(self.flat, at, parameter)
        return view

    def hand_out(self, parameter: Parameter) -> None:
        """Has a parameter's gradient hold what was reduced, if it lies elsewhere by now."""
        view, gradient = self._view_in_place(parameter), parameter.grad
        if gradient is not None and gradient is not view:
            gradient.detach().copy_(view)
