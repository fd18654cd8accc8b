"""How `ElasticSampler` spreads samples."""

import math

import torch

import horovod.torch as hvd


def check_samples_are_spread_and_what_is_done_is_left_out() -> None:
    n = hvd.size()
    data = range(10 * n + 1)
    sampler = hvd.elastic.ElasticSampler(data, shuffle=True, seed=5)
    mine = list(sampler)
    assert len(mine) == len(sampler) == 11
    everyones = hvd.allgather(torch.tensor(mine)).tolist()
    assert set(everyones) == set(data)
    second = hvd.elastic.ElasticSampler(data, seed=5)
    second.set_epoch(1)
    assert list(second) != mine
    assert list(hvd.elastic.ElasticSampler(data, seed=6)) != mine
    third = hvd.elastic.ElasticSampler(data, seed=5)
    third.load_state_dict(second.state_dict())
    assert list(third) == list(second)
    for batch in range(2):
        sampler.record_batch(batch, 3)
    assert sampler.processed_num == 6 * n
    assert set(mine[:6]) <= sampler.processed_indices
    assert len(sampler.processed_indices) == 6 * n
    sampler.load_state_dict(sampler.state_dict())
    rest = hvd.allgather(torch.tensor(list(sampler))).tolist()
    done = hvd.allgather(torch.tensor(mine[:6])).tolist()
    assert not set(rest) & set(done)
    assert set(rest) | set(done) == set(data)
    assert len(sampler) == 5
    for batch in range(9):
        sampler.record_batch(batch, 3)
    sampler.reset()
    assert list(sampler) == []
    assert sampler.processed_num == len(data)
    assert sampler.processed_indices == set(data)
    own = {1, 2}
    sampler.processed_indices = own
    sampler.set_epoch(2)
    assert sampler.processed_indices is own  # as any attribute, and samples are spread by number
    assert set(hvd.allgather(torch.tensor(list(sampler))).tolist()) == set(data)
    assert list(hvd.elastic.ElasticSampler(range(4 * n), shuffle=False)) == [
        hvd.rank() + n * i for i in range(4)
    ]
    # The first ones come again, for all ranks to have equally many.
    assert list(hvd.elastic.ElasticSampler(range(n + 1), shuffle=False)) == [
        hvd.rank(), [n, *range(n)][hvd.rank()]
    ]  # fmt: skip


def check_a_samplers_reset_may_be_a_subclass_own() -> None:
    """It sets what Horovod's sets, from which a rank's samples follow."""

    class Reversed(hvd.elastic.ElasticSampler):
        def reset(self) -> None:
            self.num_replicas, self.rank = hvd.size(), hvd.rank()
            self.remaining_indices = list(range(len(self.dataset)))[::-1][self.processed_num :]
            self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
            self.total_size = self.num_samples * self.num_replicas

    class Even(hvd.elastic.ElasticSampler):
        def reset(self) -> None:
            super().reset()
            self.num_samples = len(self.remaining_indices) // self.num_replicas
            self.total_size = self.num_samples * self.num_replicas

    n, me = hvd.size(), hvd.rank()
    assert list(Reversed(range(2 * n))) == [2 * n - 1 - me, n - 1 - me]
    even = Even(range(3 * n - 1) if n > 1 else range(2), shuffle=False)
    assert list(even) == [me, n + me]
    assert len(even) == 2


def check_a_sampler_in_a_state() -> None:
    sampler = hvd.elastic.ElasticSampler(range(8 * hvd.size()))
    state = hvd.elastic.TorchState(sampler=sampler, epoch=0)
    sampler.record_batch(0, 2)
    state.restore()
    assert len(sampler) == 8
    sampler.record_batch(0, 2 + hvd.rank())
    state.sync()
    assert len(sampler) == 6  # rank 0's word counts
    sampler.record_batch(1, 4)
    assert len(list(sampler)) == 6  # as the epoch goes on
    state.on_reset()
    assert len(list(sampler)) == 2
