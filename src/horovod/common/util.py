"""Questions about the installation, asked without importing a framework into this process."""
# ruff: noqa: ARG001, FBT001, FBT002 - Horovod's signatures

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_IMPORT_DEADLINE = (
    120.0  # seconds; a cold import of a large framework from a network disk takes long
)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether `horovod.<ext_base_name>` can be imported here, asked of a child process.

    Args:
        ext_base_name: "torch", "array", …
        verbose: let the child's messages through.
    """
    sink = None if verbose else subprocess.DEVNULL
    try:
        child = subprocess.run(
            [sys.executable, "-c", f"import horovod.{ext_base_name}"],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            timeout=_IMPORT_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether collectives can run on GPU tensors: not in this build."""
    return False


def mpi_built(verbose: bool = False) -> bool:
    """Whether MPI is built in: it is not."""
    return False


def gloo_built(verbose: bool = False) -> bool:
    """Whether the built-in MPI-free controller loads here."""
    return extension_available("array", verbose)


def nccl_built(verbose: bool = False) -> bool:
    """Whether NCCL is built in: it is not."""
    return False


def ddl_built(verbose: bool = False) -> bool:
    """Whether IBM's DDL is built in: it is not."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """Whether oneCCL is built in: it is not."""
    return False


@contextlib.contextmanager
def env(**kwargs: str) -> Iterator[None]:
    """Sets environment variables for the duration of a block."""
    before = {name: os.environ.get(name) for name in kwargs}
    os.environ.update(kwargs)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def split_list(values: Sequence[Any], num_parts: int) -> list[list[Any]]:
    """Cuts a list into at most `num_parts` runs, the first ones one longer if need be."""
    length, longer = divmod(len(values), num_parts)
    parts = []
    start = 0
    for index in range(num_parts):
        end = start + length + (index < longer)
        parts.append(list(values[start:end]))
        start = end
    return [part for part in parts if part]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_iterable(x: Any) -> bool:
    """Whether `iter` accepts a value."""
    try:
        iter(x)
    except TypeError:
        return False
    return True
