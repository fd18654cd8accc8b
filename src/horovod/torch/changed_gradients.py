"""Noticing that a script changes gradients in place while they are on their way."""

from collections.abc import Mapping

import torch

from horovod._call_site import warn_at_call_site

_CHANGED = (
    "Parameter {name!r}: its gradient was changed while it was on its way: call"
    " optimizer.synchronize() before clipping or unscaling, and make the step within"
    " optimizer.skip_synchronize(). Else ranks come to differ, as each may change what it sends, or"
    " what it has got."
)


def version_of(tensor: torch.Tensor) -> int | None:
    """How often a tensor has been changed in place; None where PyTorch does not count that."""
    try:
        return tensor._version  # noqa: SLF001 - PyTorch has no other name for it
    except RuntimeError:  # it was made in inference mode
        return None


def versions_of(gradients: Mapping[torch.Tensor, torch.Tensor]) -> dict[torch.Tensor, int | None]:
    """The versions of some parameters' gradients."""
    return {parameter: version_of(gradient) for parameter, gradient in gradients.items()}


class ChangedGradients:
    """Warns of the first gradient of an optimizer that has been changed on its way."""

    def __init__(self) -> None:
        self._warned = False

    def warn(self, name: str) -> None:
        """Warns at the script's line.

        Args:
            name: of the parameter.
        """
        if not self._warned:
            self._warned = True
            warn_at_call_site(_CHANGED.format(name=name))

    def compare(
        self,
        names: Mapping[torch.Tensor, str],
        gradients: Mapping[torch.Tensor, torch.Tensor],
        sent: Mapping[torch.Tensor, int | None],
    ) -> None:
        """Looks at gradients before the library itself writes to them.

        Args:
            names: of parameters.
            gradients: theirs, of which none is another one's part.
            sent: the versions of those that were sent.
        """
        for parameter, version in sent.items():
            gradient = gradients[parameter]
            if version_of(gradient) != version and parameter.grad is gradient:
                self.warn(names[parameter])
