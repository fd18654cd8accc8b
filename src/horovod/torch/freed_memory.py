"""Lets the C library keep the memory of freed gradients for the next step."""

import torch

# The largest block whose release still changes glibc's thresholds, less what malloc adds to it.
_LARGEST = (32 << 20) - (64 << 10)


def keep_freed_memory() -> None:
    """Makes glibc's malloc keep up to 64 MiB of freed memory instead of giving it back at once.

    A training step frees what the next one allocates again. By default malloc returns the end of
    its heap to the system as soon as more is free there than twice the largest block ever freed,
    and every page that comes back costs a fault (docs/findings.md). The threshold follows the
    program: once it has freed a block of 32 MiB, malloc expects more of the kind (mallopt(3),
    M_MMAP_THRESHOLD: it is dynamic). That is all that happens here, so that MALLOC_TRIM_THRESHOLD_,
    GLIBC_TUNABLES and other allocators keep their say.
    """
    torch.empty(_LARGEST, dtype=torch.uint8, device="cpu")
