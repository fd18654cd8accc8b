"""The backward pass, as typed code calls it."""

from typing import Any


def run_backward(loss: Any) -> None:
    """The method itself, which PyTorch has not typed."""
    loss.backward()
