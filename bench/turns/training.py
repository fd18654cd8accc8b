"""A training step on the CPU, with and without other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from turns.cases import Case, Work


class Distribute(Protocol):
    """Makes a model and its optimizer those of all ranks."""

    def __call__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, *, shared: bool
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Args: shared: whether gradients are to live in memory that all ranks map."""
        ...


class ResidualBlock(nn.Module):
    """Two convolutions and a way around them (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(images) + self.shortcut(images))


def resnet18() -> nn.Module:
    """For images of 32 by 32: 62 parameters, 43 MiB."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and outputs != 64 else 1
            layers.append(ResidualBlock(inputs, outputs, stride))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def perceptron() -> nn.Module:
    """Little work for many gradients: 6 parameters, 96 MiB."""
    return nn.Sequential(
        nn.Linear(1024, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    # So few images that computing does not drown what is measured.
    "resnet18": (resnet18, (2, 3, 32, 32)),
    "perceptron": (perceptron, (16, 1024)),
}


def training_step(case: Case, distribute: Distribute) -> Work:
    """A step of the model that the variant names, after "alone:" without any communication.

    After "shared:" with gradients in memory that all ranks map, where the library has that.
    """
    way, _, name = case.variant.rpartition(":")
    alone = way == "alone"
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step_model = model
    if not alone:
        step_model, optimizer = distribute(model, optimizer, shared=way == "shared")
    inputs = torch.randn(shape)
    targets = torch.randint(0, 10, (shape[0],))
    loss = nn.CrossEntropyLoss()

    def call() -> None:
        optimizer.zero_grad()
        loss(step_model(inputs), targets).backward()
        optimizer.step()

    def check() -> bool:
        call()
        return all(bool(parameter.isfinite().all()) for parameter in model.parameters())

    return Work(call, check, lambda: None)
