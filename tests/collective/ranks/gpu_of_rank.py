"""Where a rank's tensors lie: on a GPU if there is one for each rank of its host, else on the CPU.

With `HVD_TESTS_SHARE_GPU=1`, all ranks use the first GPU, however many there are. NCCL gives no two
ranks of a host one GPU, so it is told that each is a host of its own, which it reaches by sockets.
"""

import os

import torch

import horovod.torch as hvd
from horovod._native import _buildinfo

SHARED = os.environ.get("HVD_TESTS_SHARE_GPU") == "1"


def has_gpus() -> bool:
    """Whether each rank of this host has a GPU, and this build the code for it."""
    return (
        bool(_buildinfo.GPU)
        and torch.cuda.is_available()
        and (SHARED or torch.cuda.device_count() >= hvd.local_size())
    )


def place() -> torch.device:
    """This rank's device; ROCm's GPUs have the same name in PyTorch."""
    if not has_gpus():
        return torch.device("cpu")
    if SHARED:
        os.environ.update(NCCL_HOSTID=f"process {os.getpid()}", NCCL_SOCKET_IFNAME="lo")
    device = 0 if SHARED else hvd.local_rank()
    torch.cuda.set_device(device)
    return torch.device("cuda", device)
