"""Questions about the installation, asked without importing a framework into this process."""
# ruff: noqa: ARG001, FBT001, FBT002 - Horovod's signatures

import contextlib
import functools
import importlib
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from horovod._reduce_op import choose_op
from horovod.common.basics import HorovodBasics

_IMPORT_DEADLINE = (
    120.0  # seconds; a cold import of a large framework from a network disk takes long
)

EXTENSIONS = ["array", "torch"]  # the front ends that there are

_Answer = TypeVar("_Answer")


def _cache(question: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Asks a question once per process and set of arguments."""
    return functools.cache(question)


def get_ext_suffix() -> str:
    """The suffix of extension modules of this Python."""
    return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where an extension lies that belongs to a package's file; there is one for all front ends.

    Args:
        pkg_path: `__file__` of a module of this package.
        args: Horovod's callers pass the extension's name.
    """
    native = Path(__file__).parents[1] / "_native"
    return str(native / f"_bindings{get_ext_suffix()}")


def check_extension(ext_name: str, ext_env_var: str = "", pkg_path: str = "", *args: str) -> None:
    """Makes sure that a front end's native module is there.

    Args:
        ext_name: as "horovod.torch".
        ext_env_var: the variable that made Horovod build it; wheels need none.
        pkg_path: `__file__` of the front end.
        args: Horovod's callers pass the extension's name.

    Raises:
        ImportError: there is no such front end, or the native module does not load.
    """
    front_end = ext_name.removeprefix("horovod.").split(".")[0]
    if front_end not in EXTENSIONS:
        raise ImportError(
            f"Extension {ext_name} has not been built: horovod-variants serves"
            f" {' and '.join(f'horovod.{name}' for name in EXTENSIONS)}"
        )
    importlib.import_module("horovod._loader")


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Does nothing: no framework is linked, so that every version of one is served."""


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Compares versions of the form `major.minor.patch`; what follows the numbers is ignored.

    Raises:
        ValueError: the target is not of this form.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", target):
        raise ValueError(f"version {target!r} is not of the form major.minor.patch")
    return _numbers(ver) >= _numbers(target)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in found[0].split(".")] if found else []
    return tuple([*parts, 0, 0, 0][:3])


@_cache
def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether `horovod.<ext_base_name>` can be imported here, asked of a child process.

    Args:
        ext_base_name: "torch", "array", …
        verbose: let the child's messages through.

    Asked once per process.
    """
    return _agrees(f"import horovod.{ext_base_name}", verbose)


def _agrees(program: str, verbose: bool) -> bool:
    """Whether a child process runs a program to its end without an error.

    It finds the modules that this one finds: `-c` alone looks into the current folder first.
    """
    entries: Sequence[object] = sys.path
    path = [each for each in entries if isinstance(each, str)]
    sink = None if verbose else subprocess.DEVNULL
    try:
        child = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:] = {path!a}; {program}"],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            timeout=_IMPORT_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return child.returncode == 0


@_cache
def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework of a front end sees a GPU here, asked of a child process.

    What this build can do with GPUs, `horovod.torch.cuda_built()` and `rocm_built()` say.

    Args:
        ext_base_name: "torch", …
        verbose: let the child's messages through.

    Asked once per process.
    """
    return _agrees(
        f"import horovod.{ext_base_name} as front_end; sys.exit(not front_end._check_has_gpu())",
        verbose,
    )


def mpi_built(verbose: bool = False) -> bool:
    """Whether this build has plug-ins for MPI, and an MPI opens here."""
    return HorovodBasics().mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether the built-in MPI-free controller loads here."""
    return extension_available("array", verbose)


def nccl_built(verbose: bool = False) -> bool:
    """Whether this build has code for GPUs, and NCCL opens here."""
    return bool(HorovodBasics().nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    """Whether IBM's DDL is built in: it is not."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """Whether oneCCL is built in: it is not."""
    return False


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Sets environment variables for the duration of a block; leaves those alone that are None."""
    values = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def split_list(values: Sequence[Any], num_parts: int) -> list[list[Any]]:
    """Cuts a list into `num_parts` runs, each as long as the next one or one longer."""
    length, longer = divmod(len(values), num_parts)
    parts = []
    start = 0
    for index in range(num_parts):
        end = start + length + (index < longer)
        parts.append(list(values[start:end]))
        start = end
    return parts


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Any, Any], int]:
    """What resolves Horovod's two ways of naming a reduction, called with `op` and `average`.

    Args:
        reduce_ops: Horovod's callers pass what has the reductions; they are the same everywhere.
    """
    return lambda op, average: choose_op(op, average=average, adasum=True)


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
