"""Trains on ranks that may come and go.

    horovodrun -np 2 --min-np 1 --host-discovery-script ./hosts.sh python examples/torch_elastic.py

Kill one of the workers, or change what the script prints, and the others train on from the last
commit. Ends with code 1 if the loss has not fallen.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import horovod.torch as hvd

EPOCHS = 3
BATCH = 16
BATCHES_PER_COMMIT = 5


def make_data() -> TensorDataset:
    """Points of a plane and whether they lie in a ring."""
    points = torch.rand(1280, 2, generator=torch.Generator().manual_seed(1)) * 4 - 2
    distance = points.norm(dim=1)
    return TensorDataset(points, ((distance > 0.7) & (distance < 1.5)).float().unsqueeze(1))


@hvd.elastic.run
def train(state: hvd.elastic.TorchState, loader: "DataLoader[tuple[torch.Tensor, ...]]") -> None:
    """Trains from wherever the state has come to."""
    loss_of = nn.functional.binary_cross_entropy_with_logits
    while state.epoch < EPOCHS:
        loss = torch.zeros(())
        for number, (points, labels) in enumerate(loader):
            state.optimizer.zero_grad()
            loss = loss_of(state.model(points), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            state.optimizer.step()
            state.sampler.record_batch(number, BATCH)
            if number % BATCHES_PER_COMMIT == 0:
                state.commit()
        mean = hvd.allreduce(loss.detach(), name="loss").item()
        state.losses = [*state.losses, mean]
        if hvd.rank() == 0:
            print(f"epoch {state.epoch + 1} on {hvd.size()} ranks: loss {mean:.4f}")
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        state.commit()


def main() -> int:
    """Trains; returns the exit code."""
    hvd.init()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = make_data()
    sampler = hvd.elastic.ElasticSampler(dataset)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    rate = 0.01
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=rate * hvd.size()),
        named_parameters=model.named_parameters(),
    )
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, losses=[])

    def on_state_reset() -> None:
        for group in state.optimizer.param_groups:
            group["lr"] = rate * hvd.size()

    state.register_reset_callbacks([on_state_reset])
    train(state, loader)
    return 0 if state.losses[-1] < state.losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
