"""Which gradients travel together: the `groups` argument of the distributed optimizer."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from horovod.common.util import split_list

Parameter = torch.Tensor


def group_parameters(groups: Any, names: Mapping[Parameter, str]) -> Sequence[Sequence[Parameter]]:
    """Resolves the `groups` argument.

    Args:
        groups: None; a number of groups, over which the parameters are spread in the order of
            their names; or lists of parameters, of which those in no list travel alone.
        names: of the optimizer's parameters.

    Returns:
        The groups, equal on all ranks.

    Raises:
        ValueError: with Horovod's texts, when the argument is not usable.
    """
    if groups is None:
        return ()
    if isinstance(groups, list):
        return _check_lists(groups)
    if isinstance(groups, bool) or not isinstance(groups, int) or groups <= 0:
        raise ValueError(
            "groups should be a non-negative integer or a list of list of torch.Tensor."
        )
    trained = [parameter for parameter in names if parameter.requires_grad]
    most = max(1, len(trained))  # more would be empty
    by_name = sorted(trained, key=lambda parameter: names[parameter])
    parts = split_list(by_name, min(groups, most))
    return [part for part in parts if part]


def _check_lists(groups: Sequence[Any]) -> Sequence[Sequence[Parameter]]:
    seen: set[Parameter] = set()
    for group in groups:
        if not isinstance(group, (list, tuple)) or any(
            not isinstance(parameter, torch.Tensor) for parameter in group
        ):
            raise ValueError("groups must consist of torch.Tensor.")
        for parameter in group:
            if parameter in seen:
                raise ValueError("A parameter can only appear once in groups.")
            seen.add(parameter)
    return [list(group) for group in groups]
