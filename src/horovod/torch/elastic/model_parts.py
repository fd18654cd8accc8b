"""What models' states consist of, where a rank's model may have come further than another's."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch


class Kind(NamedTuple):
    """What is known of a buffer.

    Attributes:
        dtype: of its elements.
        shape: None as long as the first step is to find it.
        first: the name of the first buffer that is the same tensor, or its own.
    """

    dtype: torch.dtype
    shape: tuple[int, ...] | None
    first: str


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


def buffers_of(model: torch.nn.Module) -> dict[str, Kind | None]:
    """The buffers that a model's state may have, by name: None for one that is None."""
    found: dict[str, Kind | None] = {}
    first: dict[int, str] = {}
    for name, _, _, buffer in _persistent(model):
        found[name] = None
        if buffer is not None:
            first.setdefault(id(buffer), name)
            found[name] = Kind(buffer.dtype, _shape_of(buffer), first[id(buffer)])
    return found


def _modules(model: torch.nn.Module, path: str = "") -> Iterator[tuple[str, torch.nn.Module]]:
    """As they stand in its state; `named_modules` may be one of the script's own."""
    yield path, model
    for name, module in model._modules.items():  # noqa: SLF001 - as above
        if module is not None:
            yield from _modules(module, f"{path}{name}.")


def _persistent(
    model: torch.nn.Module,
) -> Iterator[tuple[str, torch.nn.Module, str, torch.Tensor | None]]:
    """The full name of each buffer, the module that has it, its name there, and itself."""
    for path, module in _modules(model):
        left_out = module._non_persistent_buffers_set  # noqa: SLF001 - PyTorch does not tell otherwise
        for name, buffer in list(module._buffers.items()):  # noqa: SLF001 - `named_buffers` leaves out those that are None
            if name not in left_out:
                yield path + name, module, name, buffer


def _shape_of(buffer: torch.Tensor) -> tuple[int, ...] | None:
    """None as long as the first step is to find it."""
    return None if torch.nn.parameter.is_lazy(buffer) else tuple(buffer.shape)


def make_room(
    model: torch.nn.Module, state: Mapping[str, Any], buffers: Mapping[str, Kind | None]
) -> None:
    """Gives a model the buffers that a state holds, as steps may make and replace them.

    What the model's own `state_dict` leaves out stays as it is.

    Args:
        model: which is to load the state.
        state: as its `state_dict` told it, or that of another rank's.
        buffers: what `buffers_of` told at that time.
    """
    present = buffers_of(model)
    if present == buffers:
        return
    told = model.state_dict()
    converted = _is_converted(told, state, buffers)
    for name, owner, short, _ in _persistent(model):
        if name not in told or name in state:
            continue
        if name not in buffers:
            delattr(owner, short)
        elif buffers[name] is None:
            owner.register_buffer(short, None)
    modules: dict[str, torch.nn.Module] = dict(_modules(model))
    made: dict[str, torch.Tensor] = {}
    for name, kind in buffers.items():
        path, dot, short = name.rpartition(".")
        module = modules.get(path + dot)
        if module is None or kind is None or kind.shape is None or name not in state:
            continue
        there = short in module._buffers  # noqa: SLF001 - as above; scripted modules have no `get`
        if not there and hasattr(module, short):
            continue  # a parameter by now
        buffer = module._buffers[short] if there else None  # noqa: SLF001 - as above
        if buffer is not None and _fits(buffer, kind, converted=converted):
            continue
        if kind.first not in made:
            device = _device_of(model) if buffer is None else buffer.device
            dtype = kind.dtype
            if buffer is not None and converted and _are_floats(buffer, kind):
                dtype = buffer.dtype
            made[kind.first] = torch.empty(kind.shape, dtype=dtype, device=device)
        module.register_buffer(short, made[kind.first])


def _is_converted(
    told: Mapping[str, Any], state: Mapping[str, Any], buffers: Mapping[str, Kind | None]
) -> bool:
    """Whether the script has changed the model's type: that of a parameter is another one.

    So it may be where there are no parameters.
    """
    changes = [
        value.dtype != state[name].dtype
        for name, value in told.items()
        if name not in buffers
        and isinstance(value, torch.Tensor)
        and isinstance(state.get(name), torch.Tensor)
    ]
    return any(changes) or not changes


def _fits(buffer: torch.Tensor, kind: Kind, *, converted: bool) -> bool:
    """Whether what was in a buffer of that kind can be copied into this one."""
    if _shape_of(buffer) not in (kind.shape, None):
        return False
    return buffer.dtype == kind.dtype or (converted and _are_floats(buffer, kind))


def _are_floats(buffer: torch.Tensor, kind: Kind) -> bool:
    return buffer.is_floating_point() and kind.dtype.is_floating_point


def _device_of(model: torch.nn.Module) -> torch.device:
    return next((each.device for each in model.parameters()), torch.device("cpu"))
