"""A sampler that knows which samples have been processed when the ranks change."""

import random
from collections.abc import Iterator, Sized
from typing import Any

import torch.utils.data

from horovod.torch.mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Spreads what is left of a dataset over the ranks that there are.

    Call `record_batch` after each batch, and `set_epoch` at the end of each epoch. Put it into a
    `TorchState`, which restores it and spreads the rest anew when ranks change.

    Args:
        dataset: only its length counts.
        shuffle: whether each epoch has an order of its own.
        seed: of these orders; the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:  # noqa: FBT001, FBT002 - Horovod's signature
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self._assigned: set[int] | None = None
        self.num_replicas = 1
        self.rank = 0
        self._order: list[int] = []
        self.remaining_indices: list[int] = []
        self.indices: list[int] = []
        self.num_samples = 0
        self.total_size = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Starts an epoch: all samples are to be processed."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:  # noqa: ARG002 - as above
        """Notes that all ranks have processed a batch.

        Args:
            batch_idx: its number; all ranks are at the same.
            batch_size: per rank.
        """
        self.processed_num = min(
            self.processed_num + batch_size * self.num_replicas, len(self.dataset)
        )

    @property
    def processed_indices(self) -> set[int]:
        """The samples of this epoch that `record_batch` has counted, of all ranks.

        Once it has been assigned, it is what it was given: subclasses keep account of their own.
        As in Horovod, `processed_num` alone decides which samples are left.
        """
        return set(self._order[: self.processed_num]) if self._assigned is None else self._assigned

    @processed_indices.setter
    def processed_indices(self, indices: set[int]) -> None:
        self._assigned = indices

    def state_dict(self) -> dict[str, Any]:
        """How far the epoch has come."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to where another epoch has come."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Spreads the samples that are left over the ranks that there are now."""
        self.num_replicas = size()
        self.rank = rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)  # noqa: S311 - no secret
        self._order = order
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self.indices = self._share()

    def _share(self) -> list[int]:
        """This rank's of the samples that are left; some twice, so that all have as many."""
        padded = list(self.remaining_indices)
        while padded and len(padded) < self.total_size:
            padded += padded[: self.total_size - len(padded)]
        return padded[self.rank : self.total_size : self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        """The indices of this rank.

        What is left is looked at here again: subclasses of Horovod's spread it in a `reset` of
        their own, which sets `remaining_indices`, `num_samples` and `total_size`.
        """
        self.indices = self._share()
        return iter(self.indices)

    def __len__(self) -> int:
        """Number of samples of each rank."""
        return self.num_samples
