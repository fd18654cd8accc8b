"""What models' states consist of, where a rank's model may have come further than another's."""

import copy
from collections.abc import Mapping
from typing import Any

import torch


def is_no_parameter(name: str, value: Any) -> bool:
    """Whether a part of a model's state has to be loaded, and cannot be filled where it is."""
    return name.rpartition(".")[2] == "_extra_state" or not isinstance(value, torch.Tensor)


def outline_of(state: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What a model's state consists of: the names, and the types and shapes of tensors."""

    def known(name: str, value: Any) -> bool:
        return not is_no_parameter(name, value) and not torch.nn.parameter.is_lazy(value)

    return [
        (name, (value.dtype, tuple(value.shape)) if known(name, value) else None)
        for name, value in state.items()
    ]


def on_cpu(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model's state for ranks with other devices, with its `_metadata`."""
    moved: Any = copy.copy(state)
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and not torch.nn.parameter.is_lazy(value):
            moved[name] = value.detach().cpu()
    return moved  # type: ignore[no-any-return]


def buffers_of(model: torch.nn.Module) -> dict[str, Any]:
    """Types and shapes of the buffers that a model's state may have: None for one that is None."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        left_out = module._non_persistent_buffers_set  # noqa: SLF001 - PyTorch does not tell otherwise
        for name, buffer in module._buffers.items():  # noqa: SLF001 - `named_buffers` leaves out those that are None
            if name not in left_out:
                lazy = buffer is not None and torch.nn.parameter.is_lazy(buffer)
                known = None if buffer is None or lazy else (buffer.dtype, buffer.shape)
                found[f"{path}.{name}" if path else name] = "lazy" if lazy else known
    return found


def make_room(model: torch.nn.Module, buffers: Mapping[str, Any]) -> None:
    """Gives a model the buffers that another one has, as its steps may make and replace them.

    Args:
        model: whose state is to be loaded.
        buffers: what `buffers_of` tells of the other one.
    """
    present = buffers_of(model)
    if present == buffers:
        return
    modules = dict(model.named_modules(remove_duplicate=False))
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    for key in {**present, **buffers}:
        path, _, name = key.rpartition(".")
        module = modules.get(path)
        old, new = present.get(key, "none"), buffers.get(key, "none")
        if module is None or old == new or "lazy" in (old, new):
            continue
        if new == "none":
            delattr(module, name)
            continue
        where = getattr(getattr(module, name, None), "device", device)
        made = None if new is None else torch.empty(new[1], dtype=new[0], device=where)
        module.register_buffer(name, made)
