"""Trains a small residual network with warm-up, checkpoints and resuming, as large jobs do.

    horovodrun -np 2 python examples/torch_resnet.py --checkpoint-format 'checkpoint-{epoch}.pt'

Run it again to go on from the last checkpoint. Ends with code 1 if the loss has not fallen.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd

CLASSES = 4


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="a residual network on several ranks")
    parser.add_argument("--checkpoint-format", default="")
    parser.add_argument("--batches-per-allreduce", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--base-lr", type=float, default=0.0125)
    parser.add_argument("--warmup-epochs", type=float, default=1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--wd", type=float, default=0.00005)
    parser.add_argument("--num-groups", type=int, default=2)
    parser.add_argument("--sync-batch-norm", action="store_true")
    return parser.parse_args()


class Block(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, channels: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = norm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, changed a little."""
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(inner)))


def make_model(*, sync_batch_norm: bool) -> nn.Module:
    """A stem, three blocks and a classifier."""
    norm = hvd.SyncBatchNorm if sync_batch_norm else nn.BatchNorm2d
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        *(Block(8, norm) for _ in range(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


class Metric:
    """The mean of a value over batches and ranks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sum = torch.tensor(0.0)
        self.n = torch.tensor(0.0)

    def update(self, value: torch.Tensor) -> None:
        """Adds this batch's value of all ranks."""
        self.sum += hvd.allreduce(value.detach(), name=self.name)
        self.n += 1

    @property
    def avg(self) -> float:
        """The mean so far."""
        return float(self.sum / self.n)


def make_data(count: int) -> TensorDataset:
    """Pictures with a bright spot in one of four corners."""
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    images = 0.5 * torch.randn(count, 3, 8, 8, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[label % 3, row : row + 4, column : column + 4] += 1 + label
    return TensorDataset(images, labels)


def adjust_learning_rate(args: argparse.Namespace, optimizer: Any, progress: float) -> None:
    """Grows the rate from that of one rank to that of all ranks while it warms up."""
    if progress < args.warmup_epochs:
        scale = 1 / hvd.size() * (progress * (hvd.size() - 1) / args.warmup_epochs + 1)
    else:
        scale = 1.0
    rate = args.base_lr * hvd.size() * args.batches_per_allreduce * scale
    for group in optimizer.param_groups:
        group["lr"] = rate


def last_checkpoint(args: argparse.Namespace) -> int:
    """The epoch to resume after; 0 for none. Rank 0 looks, and tells the others."""
    found = 0
    if args.checkpoint_format:
        for epoch in range(args.epochs, 0, -1):
            if Path(args.checkpoint_format.format(epoch=epoch)).exists():
                found = epoch
                break
    return int(hvd.broadcast(torch.tensor(found), root_rank=0, name="resume_from_epoch").item())


def train_epoch(
    args: argparse.Namespace,
    model: nn.Module,
    optimizer: Any,
    loader: "DataLoader[tuple[torch.Tensor, ...]]",
    epoch: int,
) -> float:
    """One pass over this rank's part of the data; several batches make one step."""
    model.train()
    train_loss = Metric("train_loss")
    for number, (data, target) in enumerate(loader):
        adjust_learning_rate(args, optimizer, epoch + number / len(loader))
        optimizer.zero_grad()
        for start in range(0, len(data), args.batch_size):
            part = slice(start, start + args.batch_size)
            loss = F.cross_entropy(model(data[part]), target[part])
            train_loss.update(loss)
            loss.div_(len(data) / args.batch_size)
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return train_loss.avg


def main() -> int:
    """Trains; returns the exit code."""
    args = parse_arguments()
    hvd.init()
    torch.manual_seed(42)
    torch.set_num_threads(1)
    resume_from_epoch = last_checkpoint(args)

    dataset = make_data(32 * args.batch_size * args.batches_per_allreduce)
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(
        dataset, num_replicas=hvd.size(), rank=hvd.rank()
    )
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size * args.batches_per_allreduce,
        sampler=sampler,
        drop_last=True,
    )
    model = make_model(sync_batch_norm=args.sync_batch_norm)
    optimizer: Any = torch.optim.SGD(
        model.parameters(), lr=args.base_lr, momentum=args.momentum, weight_decay=args.wd
    )
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        backward_passes_per_step=args.batches_per_allreduce,
        groups=args.num_groups,
    )
    if resume_from_epoch > 0 and hvd.rank() == 0:
        saved = torch.load(args.checkpoint_format.format(epoch=resume_from_epoch))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    losses = []
    for epoch in range(resume_from_epoch, args.epochs):
        sampler.set_epoch(epoch)
        losses.append(train_epoch(args, model, optimizer, loader, epoch))
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}")
            if args.checkpoint_format:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, args.checkpoint_format.format(epoch=epoch + 1))
    if hvd.rank() == 0 and resume_from_epoch:
        print(f"resumed after epoch {resume_from_epoch}")
    return 0 if len(losses) < 2 or losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
