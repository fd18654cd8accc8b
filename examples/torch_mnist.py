"""Trains a digit classifier: `horovodrun -np 2 python examples/torch_mnist.py`.

The digits are drawn by the program itself, so that it needs no download. Ends with code 1 if the
accuracy on the test set stays below 90 %.
"""

import argparse
import sys
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd

Sampler: TypeAlias = "DistributedSampler[tuple[torch.Tensor, ...]]"

SIDE = 14
CLASSES = 10


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="digits on several ranks")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--test-batch-size", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--log-interval", type=int, default=20)
    parser.add_argument("--fp16-allreduce", action="store_true")
    parser.add_argument("--use-adasum", action="store_true")
    parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
    return parser.parse_args()


def draw_digits(count: int, seed: int) -> TensorDataset:
    """Noisy pictures: each class has a pattern of its own, shifted by a pixel or two."""
    patterns = torch.randn(CLASSES, SIDE, SIDE, generator=torch.Generator().manual_seed(7))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    shifts = torch.randint(-1, 2, (count,), generator=generator).tolist()
    images = torch.stack(
        [patterns[label].roll(shift, 1) for label, shift in zip(labels, shifts, strict=True)]
    )
    images += 0.5 * torch.randn(images.shape, generator=generator)
    return TensorDataset(images.unsqueeze(1), labels)


class Net(nn.Module):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3)
        self.conv2_drop = nn.Dropout2d(0.1)
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the classes."""
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = F.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(
    epoch: int,
    model: nn.Module,
    optimizer: Any,
    loader: "DataLoader[tuple[torch.Tensor, ...]]",
    sampler: Sampler,
    log_interval: int,
) -> None:
    """One pass over this rank's part of the data."""
    model.train()
    sampler.set_epoch(epoch)  # each epoch in an order of its own
    for number, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if number % log_interval == 0 and hvd.rank() == 0:
            print(f"epoch {epoch} [{number * len(data)}/{len(sampler)}]  loss {loss.item():.4f}")


def metric_average(value: float, name: str) -> float:
    """The mean over all ranks."""
    return float(hvd.allreduce(torch.tensor(value), name=name).item())


def test(
    model: nn.Module,
    loader: "DataLoader[tuple[torch.Tensor, ...]]",
    sampler: Sampler,
) -> float:
    """The accuracy on the test set."""
    model.eval()
    loss = correct = 0.0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(1) == target).sum().item()
    loss = metric_average(loss / len(sampler), "avg_loss")
    accuracy = metric_average(correct / len(sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"test set: loss {loss:.4f}, accuracy {100 * accuracy:.1f} %")
    return accuracy


def main() -> int:
    """Trains and tests; returns the exit code."""
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_dataset, test_dataset = draw_digits(3200, 1), draw_digits(400, 2)
    train_sampler: Sampler = DistributedSampler(
        train_dataset, num_replicas=hvd.size(), rank=hvd.rank()
    )
    train_loader = DataLoader(train_dataset, batch_size=args.batch_size, sampler=train_sampler)
    test_sampler: Sampler = DistributedSampler(
        test_dataset, num_replicas=hvd.size(), rank=hvd.rank()
    )
    test_loader = DataLoader(test_dataset, batch_size=args.test_batch_size, sampler=test_sampler)

    model = Net()
    lr_scaler = 1 if args.use_adasum else hvd.size()  # Adasum needs no larger steps
    optimizer: Any = torch.optim.SGD(
        model.parameters(), lr=args.lr * lr_scaler, momentum=args.momentum
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor,
    )
    accuracy = 0.0
    for epoch in range(1, args.epochs + 1):
        train(epoch, model, optimizer, train_loader, train_sampler, args.log_interval)
        accuracy = test(model, test_loader, test_sampler)
    return 0 if accuracy >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
