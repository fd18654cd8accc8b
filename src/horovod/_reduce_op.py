"""The reductions by number, and how a caller names one."""

import operator
import warnings

from horovod._loader import _bindings

Average = _bindings.AVERAGE
Sum = _bindings.SUM
Adasum = _bindings.ADASUM
Min = _bindings.MIN
Max = _bindings.MAX
Product = _bindings.PRODUCT


def require_power_of_2(size: int) -> None:
    """Refuses numbers of ranks that Adasum cannot combine in pairs.

    Raises:
        NotImplementedError: with Horovod's text.
    """
    if size & (size - 1):
        raise NotImplementedError("Running Adasum with non-power of 2 ranks is not supported yet.")


def choose_op(op: int | None, *, average: bool | None, adasum: bool = False) -> int:
    """Resolves Horovod's two ways of naming the reduction.

    Args:
        op: one of `Average`, `Sum`, `Min`, `Max`, `Product`, `Adasum`, or None.
        average: the deprecated way: True for Average, False for Sum, or None.
        adasum: whether Adasum may be chosen.

    Raises:
        ValueError: both are given, or the op is unknown.
        NotImplementedError: for Adasum where it may not be chosen.
    """
    if average is not None:
        warnings.warn(
            "Parameter `average` has been replaced with `op` and will be removed in v1.0",
            DeprecationWarning,
            stacklevel=3,  # the line that calls the collective
        )
        if op is not None:
            raise ValueError(
                "The op parameter supersedes average. Please provide only one of them."
            )
        return Average if average else Sum
    if op is None:
        return Average
    try:
        number = operator.index(op)  # NumPy's numbers too
    except TypeError:
        number = None
    if number not in (Average, Sum, Adasum, Min, Max, Product):
        raise ValueError(
            f"op={op!r} is not a reduction; use one of Average, Sum, Min, Max, Product, Adasum"
        )
    if number == Adasum and not adasum:
        raise NotImplementedError("op=Adasum is an allreduce's alone")
    return number
