"""Shapes of the gradients of well-known models."""

from __future__ import annotations

import math
from collections.abc import Sequence


def elements(shape: Sequence[int]) -> int:
    """How many numbers a tensor of this shape holds."""
    return math.prod(shape)


def resnet50() -> list[tuple[int, ...]]:
    """ResNet-50's 161 parameters, in the order of the model (https://arxiv.org/abs/1512.03385)."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            wide = 4 * width
            shapes += [(width, channels, 1, 1), (width,), (width,)]
            shapes += [(width, width, 3, 3), (width,), (width,)]
            shapes += [(wide, width, 1, 1), (wide,), (wide,)]
            if block == 0:
                shapes += [(wide, channels, 1, 1), (wide,), (wide,)]
            channels = wide
    return [*shapes, (1000, 2048), (1000,)]


SHAPES = {"resnet50": resnet50()}
