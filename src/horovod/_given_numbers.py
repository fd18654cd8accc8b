"""The numbers that callers hand to collectives, and what is wrong with those that are none.

The bindings answer a wrong one with the types of all their arguments, which callers never see.
"""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

# Of what the core counts ranks and devices in.
_MOST = 2**31 - 1
_LARGEST_SIZE = 2**63 - 1  # of those of a shape that it can read
_FACTORS = (
    "prescale",
    "postscale",
)  # as options of an operation; their callers' have a longer name


def checked_root(root: object) -> int:
    """The rank as a whole number that the bindings take; which ranks there are is theirs to say.

    Raises:
        TypeError: it is no whole number.
        ValueError: no job has so many ranks.
    """
    try:
        rank = operator.index(root)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"root_rank must be a rank, a whole number, not {root!r}") from None
    if abs(rank) > _MOST:
        raise ValueError(f"broadcast received invalid root rank {rank}: no job has so many ranks.")
    return rank


def checked_device(device: object) -> int:
    """The number of a GPU, as a whole number that the bindings take; negative ones name none.

    Raises:
        TypeError: it is no whole number.
        ValueError: no host has so many.
    """
    try:
        number = operator.index(device)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"device must be the number of a GPU, a whole number, not {device!r}"
        ) from None
    if number > _MOST:
        raise ValueError(f"device is {number}: no host has so many GPUs")
    return number


def checked_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """The sizes of a shape that the bindings take; whether there is room is theirs to say.

    Raises:
        ValueError: a size is out of all bounds.
    """
    sizes = tuple(shape)
    if any(abs(size) > _LARGEST_SIZE for size in sizes):
        raise ValueError(f"nothing has the shape {sizes}: a size is negative or too large")
    return sizes


def checked_factor(name: str, factor: Any) -> float:
    """A factor as the number that the bindings make of it.

    Args:
        name: of the argument, for the error.
        factor: a number of Python's or NumPy's, a tensor of one element, or the like.

    Raises:
        TypeError: it is no number.
        ValueError: it is larger than a float can be.
    """
    try:
        if not isinstance(factor, str | bytes | bytearray | memoryview):  # which `float` reads
            return float(factor)
    except OverflowError:
        raise ValueError(f"{name} is larger than the largest floating-point number") from None
    except (TypeError, ValueError, RuntimeError):  # the latter from tensors of several elements
        pass
    raise TypeError(f"{name} must be a number, not {factor!r}")


def explained(error: Exception, options: Mapping[str, Any]) -> Exception:
    """The error to raise in place of one of the bindings, if an operation's factors have caused it.

    Args:
        error: what the bindings have raised.
        options: of the operation.
    """
    if isinstance(error, TypeError):
        try:
            for name in _FACTORS:
                checked_factor(f"{name}_factor", options.get(name, 1.0))
        except (TypeError, ValueError) as wrong:
            return wrong.with_traceback(None)
    return error
