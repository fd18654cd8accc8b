"""Trains elastically on whatever ranks there are; the result does not depend on how many.

Usage: elastic_training.py kill | hosts FILE | replace FILE

Prints what happens and, at the end, the parameters.
"""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import sys
import time
from pathlib import Path

import torch

import horovod.torch as hvd
from collective.ranks.gpu_of_rank import SHARED, place

SAMPLES = 24
BATCH = 2
EPOCHS = 4
KILLED = ((3, 1, 6), (2, 0, 10))  # number of ranks, the rank that dies, how often it has committed
HOSTS = {  # after which epoch there are which
    "hosts": {1: "localhost:1\n127.0.0.1:1\n", 2: "127.0.0.1:1\n"},
    "replace": {1: "127.0.0.1:1\n"},
}


class Samples(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self) -> None:
        self.inputs = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(index), self.inputs[index]


def say(*words: object) -> None:
    print(f"[{hvd.rank()}/{hvd.size()}]", *words, flush=True)


def main(mode: str, hosts_file: str = "") -> None:
    hvd.init()
    dataset = Samples()
    sampler = hvd.elastic.ElasticSampler(dataset, shuffle=True)
    torch.manual_seed(0 if hvd.rank() == 0 else 99)  # only rank 0's start counts
    # Ranks come and go, and with them the GPU that is a rank's own.
    device = place() if SHARED else torch.device("cpu")
    model = torch.nn.Linear(3, 1, bias=False).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5),
        named_parameters=model.named_parameters(),
        op=hvd.Sum,
        # Made anew in each round.
        gradient_as_bucket_view=mode == "kill" and device.type == "cpu",
    )
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, seen=[])
    state.register_reset_callbacks([lambda: say("reset")])
    commits = 0

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> str:
        nonlocal commits
        say("round", os.environ["HOROVOD_ELASTIC_ROUND"], "epoch", state.epoch)
        while state.epoch < EPOCHS:
            # The whole epoch's gradient, gathered batch by batch, makes one step of its end.
            loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=sampler)
            for number, (indices, _) in enumerate(loader):
                state.seen = [*state.seen, hvd.allgather(indices, name="indices").tolist()]
                sampler.record_batch(number, BATCH)
                state.commit()
                commits += 1
                if mode == "kill" and (hvd.size(), hvd.rank(), commits) in KILLED:
                    os.kill(os.getpid(), signal.SIGKILL)
            share = dataset.inputs[hvd.rank() :: hvd.size()].to(device)
            state.optimizer.zero_grad()
            loss = (state.model(share) - share.sum(1, keepdim=True)).square().sum()
            loss.backward()
            state.optimizer.step()
            state.epoch += 1
            sampler.set_epoch(state.epoch)
            if mode in HOSTS:
                change_hosts(state)
            state.commit()
        return "finished"

    def change_hosts(state: hvd.elastic.TorchState) -> None:
        """Has hosts come and go, and waits for it."""
        wanted = HOSTS[mode].get(state.epoch)
        if wanted is None:
            return
        if hvd.rank() == 0:
            target = Path(hosts_file)
            target.with_suffix(".new").write_text(wanted)
            target.with_suffix(".new").rename(target)
        state.save()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # until the launcher has seen it and interrupts
            state.check_host_updates()
            time.sleep(0.02)

    outcome = train(state)
    seen = sorted(index for batch in state.seen for index in batch)
    say("seen", [seen.count(index) for index in range(SAMPLES)])
    say(outcome, *(f"{value:.6f}" for value in model.weight.detach().flatten().tolist()))


if __name__ == "__main__":
    main(*sys.argv[1:])
