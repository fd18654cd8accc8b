"""Copies of gradients into memory that is reduced later than caches would keep it."""

import torch

from horovod._session import SESSION

# As long as the core's copies that go past the caches (kernels/stream_copy.h).
_LONG_BYTES = 2 << 20


def copy_into(view: torch.Tensor, gradient: torch.Tensor) -> None:
    """Fills a gradient's place; a long one past the caches, whose lines need not be read then.

    Gradients are not recorded meanwhile: called within `torch.no_grad()`.

    Args:
        view: dense, on the CPU, apart from other tensors.
        gradient: of the same shape; it may be of another type or layout, and lie anywhere.
    """
    member = SESSION.current
    nbytes = view.numel() * view.element_size()
    if member is None or nbytes < _LONG_BYTES or not _are_apart_and_alike(view, gradient, nbytes):
        view.copy_(gradient)
        return
    member.runtime.copy(view.data_ptr(), gradient.data_ptr(), nbytes)
    view.narrow(0, 0, 0).zero_()  # which PyTorch counts as a change


def _are_apart_and_alike(view: torch.Tensor, gradient: torch.Tensor, nbytes: int) -> bool:
    """Whether one's bytes are to become the other's, in their order."""
    return (
        type(gradient) is torch.Tensor
        and gradient.layout is torch.strided
        and gradient.is_cpu
        and (gradient.dtype, gradient.shape) == (view.dtype, view.shape)
        and gradient.stride() == view.stride()
        and not gradient.is_neg()
        and gradient.data_ptr() != 0  # as of zeros that take no memory
        and abs(gradient.data_ptr() - view.data_ptr()) >= nbytes
    )
