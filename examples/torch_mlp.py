"""Trains a small PyTorch model on all ranks: `horovodrun -np 2 python examples/torch_mlp.py`.

Ends with code 1 if the loss has not fallen or the ranks' parameters differ.
"""

import os
import sys

import torch
from torch import nn

import horovod.torch as hvd

STEPS = 60
BATCH = 64


def make_data(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a plane, labelled by whether they lie in a ring; other points on every rank."""
    generator = torch.Generator().manual_seed(1000 + rank)
    points = torch.rand(STEPS * BATCH, 2, generator=generator) * 4 - 2
    distance = points.norm(dim=1)
    return points, ((distance > 0.7) & (distance < 1.5)).float().unsqueeze(1)


def main() -> int:
    """Trains, compares the ranks and returns the exit code."""
    hvd.init()
    # The ranks of one host share its cores.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    torch.manual_seed(hvd.rank())  # ranks start unlike, and are made alike by the broadcast below
    model = nn.Sequential(
        nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    points, labels = make_data(hvd.rank())
    losses = []
    for step in range(STEPS):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(points[batch]), labels[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
        if hvd.rank() == 0 and step % 10 == 0:
            print(f"step {step:3d}  loss {losses[-1]:.4f}")

    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyones = hvd.allgather(parameters.unsqueeze(0))
    identical = all(torch.equal(everyones[0], other) for other in everyones)
    fell = losses[-1] < 0.8 * losses[0]
    if hvd.rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        print(f"parameters on {hvd.size()} ranks: {'identical' if identical else 'DIFFERENT'}")
    return 0 if identical and fell else 1


if __name__ == "__main__":
    sys.exit(main())
