"""The names under which gradients are reduced: the `named_parameters` argument of the optimizer."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

Parameter = torch.Tensor

_TAKEN = "a tensor with the same name as another tensor that is currently being processed"
_ADVICE = (
    "two optimizers name gradients alike, or an earlier DistributedOptimizer of these parameters is"
    " still alive: give distinct names, e.g. [('encoder.' + n, p) for n, p in"
    " encoder.named_parameters()], or delete the earlier one"
)


def numbered(group: int, place: int) -> str:
    """The name of a parameter without one: the optimizer's group, and its place there."""
    return f"{_of_group(group)}.{place}"


def _of_group(number: int) -> str:
    return f"allreduce.noname.{number}"


def unused_number(position: int, names: Iterable[str]) -> int:
    """The number of a group that is added: its position, or the next one that no name has.

    Groups may have been deleted before: those behind them keep their names, and so do the deleted
    ones' parameters, whose gradients are reduced as long as the model uses them.
    """
    taken = {name.rpartition(".")[0] for name in names}
    return next(number for number in itertools.count(position) if _of_group(number) not in taken)


def name_parameters(
    groups: Sequence[dict[str, Any]], named: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    """Finds a name for each parameter, the same on all ranks.

    Args:
        groups: the optimizer's parameter groups.
        named: `model.named_parameters()`; None to number the parameters.

    Raises:
        ValueError: with Horovod's texts, when the names are not usable.
    """
    if named is None:
        return {
            parameter: numbered(i, j)
            for i, group in enumerate(groups)
            for j, parameter in enumerate(group["params"])
        }
    pairs = list(named)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by"
            " model.named_parameters()."
        )
    counts = Counter(name for name, _ in pairs)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise ValueError(
            "Parameter names in named_parameters must be unique. Found duplicates:"
            f" {', '.join(duplicates)}"
        )
    by_parameter = {parameter: name for name, parameter in pairs}
    unnamed = [
        id(parameter)
        for group in groups
        for parameter in group["params"]
        if parameter not in by_parameter
    ]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named."
            f" Python object ids: {', '.join(map(str, unnamed))}"
        )
    return by_parameter


def advise_on_taken_name(error: ValueError) -> None:
    """Adds to the error of a name that is in use what to do where it is a gradient's."""
    if _TAKEN in str(error):
        error.args = (f"{error} In a backward pass: {_ADVICE}.",)
