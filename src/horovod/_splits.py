"""How many rows of an alltoall go to each rank, as callers give it."""

import operator
from typing import Any

_MOST_ROWS = 2**63 - 1


def bad_splits(given: object) -> ValueError:
    """The error for what cannot be numbers of rows."""
    return ValueError(
        "alltoall expects splits to be a list of whole numbers or a one-dimensional array of"
        f" integers, one for each rank, but they are {given!r}"
    )


def read_splits(given: Any) -> list[int] | None:
    """Reads the `splits` of an alltoall; None stands for even parts.

    Raises:
        ValueError: it has something else than whole numbers, one after the other, or larger ones
            than rows are counted in.
    """
    if given is None:
        return None
    try:
        items = list(given)
        splits = [operator.index(item) for item in items]
    except TypeError as error:
        raise bad_splits(given) from error
    # A bool can be an index, too.
    if str(getattr(given, "dtype", "")) == "bool" or any(isinstance(item, bool) for item in items):
        raise bad_splits(given)
    if any(abs(rows) > _MOST_ROWS for rows in splits):
        raise ValueError(f"alltoall got splits of {given!r}: no tensor has so many rows")
    return splits
