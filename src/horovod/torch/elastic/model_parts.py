"""What models' states consist of, where a rank's model may have come further than another's."""

import copy
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
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
        for name, buffer in _persistent(module).items():
            known = None if buffer is None else (buffer.dtype, _shape_of(buffer))
            found[f"{path}.{name}" if path else name] = known
    return found


def _persistent(module: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    left_out = module._non_persistent_buffers_set  # noqa: SLF001 - PyTorch does not tell otherwise
    each = module._buffers.items()  # noqa: SLF001 - `named_buffers` leaves out those that are None
    return {name: buffer for name, buffer in each if name not in left_out}


def _shape_of(buffer: torch.Tensor) -> tuple[int, ...] | None:
    """None as long as the first step is to find it."""
    return None if torch.nn.parameter.is_lazy(buffer) else tuple(buffer.shape)


def make_room(model: torch.nn.Module, names: AbstractSet[str], buffers: Mapping[str, Any]) -> None:
    """Gives a model the buffers that a state tells of, as steps may make and replace them.

    Those that have the shape already stay, and their types, which the script may have changed.

    Args:
        model: whose state is to be loaded.
        names: of everything in that state.
        buffers: what `buffers_of` told when it was taken.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for path, module in modules.items():
        for name in _persistent(module):
            key = f"{path}.{name}" if path else name
            if key not in buffers and key not in names:
                delattr(module, name)
    made: dict[int, torch.Tensor] = {}  # as modules may have one in common
    for key, kind in buffers.items():
        path, _, name = key.rpartition(".")
        if path not in modules or not _may_have_buffer(modules[path], name):
            continue
        module = modules[path]
        present = getattr(module, name, None)
        if kind is None:
            module.register_buffer(name, None)
            continue
        dtype, shape = kind
        if shape is None or (present is not None and _shape_of(present) in (shape, None)):
            continue
        room = made.get(id(present))
        if room is None:
            device = _device_of(model) if present is None else present.device
            room = torch.empty(shape, dtype=dtype, device=device)
        if present is not None:
            made[id(present)] = room
        module.register_buffer(name, room)


def _may_have_buffer(module: torch.nn.Module, name: str) -> bool:
    """Not what is a parameter by now, say."""
    return name in module._buffers or not hasattr(module, name)  # noqa: SLF001 - as above


def _device_of(model: torch.nn.Module) -> torch.device:
    return next((each.device for each in model.parameters()), torch.device("cpu"))
