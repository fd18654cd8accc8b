"""Sparse tensors whose shapes differ between ranks."""

import pytest
import torch

import horovod.torch as hvd
from collective.ranks.backward_pass import run_backward
from horovod.common.exceptions import HorovodInternalError


def check_sparse_tensors_of_other_shapes_are_refused_on_all_ranks() -> None:
    """As of embeddings whose vocabulary each rank has made of its own data."""
    rows = 4 + (hvd.rank() == hvd.size() - 1)
    table = torch.nn.Embedding(rows, 2, sparse=True)
    text = r"Mismatched sparse_allreduce tensor shapes: .* \[4\], .* \[5\]"
    entry = torch.sparse_coo_tensor(torch.tensor([[rows - 1]]), torch.ones(1, 2), (rows, 2))
    finish = hvd.sparse_allreduce_async(entry, "shapes", hvd.Sum)
    with pytest.raises(HorovodInternalError, match=text):
        finish()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    run_backward(table(torch.tensor([rows - 1])).sum())
    with pytest.raises(HorovodInternalError, match=text):
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
