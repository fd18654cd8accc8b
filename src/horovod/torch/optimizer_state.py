"""An optimizer's state as it is, where `load_state_dict` alone would change types and values."""

import contextlib
import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from horovod.torch.operands import NAMES
from horovod.torch.wrapping import load_as_wrapped

# What `Optimizer.load_state_dict`, which makes iterables anew from their items, does not fail at.
_REBUILT = (str, bytes, bytearray, set, frozenset, deque)


@dataclass(frozen=True)
class Snapshot:
    """What an optimizer says of itself.

    Attributes:
        told: its `state_dict()`, with the optimizer's own tensors.
        exact: which of the state's entries stand there as they are: by their keys there, None for
            the whole entry, else the keys within it. Of all others, which an optimizer's own
            `state_dict` has made, only its `load_state_dict` knows what they mean.
    """

    told: Any
    exact: Mapping[Any, list[Any] | None]


class _Opaque:
    """Stands for a value that `load_state_dict` cannot take."""


@dataclass(frozen=True)
class _Place:
    """Stands for a tensor, which travels on its own."""

    number: int


@dataclass(frozen=True)
class _Kind:
    """What a rank has to know of a tensor to receive it.

    Attributes:
        strides: how its elements lie, where they have no gaps: fused optimizers take it for granted
            that those of a state lie as the parameter's do.
        home: the number of the parameter on whose device it belongs; None for the CPU.
        itself: the tensor where collectives cannot send it, else None. Types that they do not know,
            and that cannot be pickled either, as those of 8-bit floating point, travel as bytes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    home: int | None
    itself: torch.Tensor | None


@dataclass(frozen=True)
class Packed:
    """A snapshot for ranks with other devices, with a place for each tensor."""

    skeleton: Any
    kinds: list[_Kind]
    exact: Mapping[Any, list[Any] | None]


def _mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Copies nested dicts, lists and tuples with something in place of each value within."""
    if isinstance(value, dict):
        items = {key: _mapped(item, leaf) for key, item in value.items()}
        if type(value) is dict:
            return items
        result = copy.copy(value)
        result.update(items)
        return result
    if type(value) in (list, tuple):
        return type(value)(_mapped(item, leaf) for item in value)
    return leaf(value)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The parameters by the numbers that they have in a `state_dict`."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _entries(told: Any) -> dict[Any, Any]:
    entries = told.get("state") if isinstance(told, Mapping) else None
    return entries if isinstance(entries, dict) else {}


def _same(one: Any, other: Any) -> bool:
    """Whether a value is another, or an equal copy of it."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        alike = (one.dtype, one.shape, one.layout) == (other.dtype, other.shape, torch.strided)
        return alike and torch.equal(one, other.to(one.device))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) in (bool, int, float, complex, str, bytes) and bool(one == other)


def take(optimizer: torch.optim.Optimizer) -> Snapshot:
    """Asks an optimizer for its state."""
    told: Any = optimizer.state_dict()
    entries = _entries(told)
    numbers: dict[torch.Tensor, int] = {}
    for number, parameter in enumerate(_parameters(optimizer)):
        numbers.setdefault(parameter, number)
    exact: dict[Any, list[Any] | None] = {}
    state: Mapping[Any, Any] = optimizer.state
    for key, value in state.items():
        name = numbers.get(key) if isinstance(key, torch.Tensor) else key
        if name not in entries:
            continue
        said = entries[name]
        if _same(value, said):
            exact[name] = None
        elif isinstance(value, dict) and isinstance(said, dict):
            exact[name] = [
                each for each in value if each in said and _same(value[each], said[each])
            ]
    return Snapshot(told, exact)


def _keeps_step(optimizer: torch.optim.Optimizer) -> list[bool]:
    """Of which parameters the number of steps stays on the CPU wherever they are, as in PyTorch."""
    return [
        not (group.get("capturable") or group.get("fused"))
        for group in optimizer.param_groups
        for _ in group["params"]
    ]


def pack(optimizer: torch.optim.Optimizer, snapshot: Snapshot) -> tuple[Packed, list[torch.Tensor]]:
    """Prepares a snapshot for other ranks; returns the tensors, which are to be sent, beside it."""
    parameters, keeps_step = _parameters(optimizer), _keeps_step(optimizer)
    kinds: list[_Kind] = []
    sent: list[torch.Tensor] = []

    def packed(value: Any, number: int | None = None, step: Any = None) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        home = number
        if number is not None and value.is_cpu:
            stays = value is step and keeps_step[number]
            home = None if stays or not parameters[number].is_cpu else number
        tensor = value.detach().cpu()
        plain = type(tensor) is torch.Tensor and tensor.layout == torch.strided
        pickled = tensor.dtype not in NAMES and tensor.is_quantized
        itself = None if plain and not pickled else tensor
        strides = torch.empty_like(tensor, device="meta").stride() if itself is None else ()
        kinds.append(_Kind(tuple(tensor.shape), strides, tensor.dtype, home, itself))
        if itself is None:
            sent.append(tensor if tensor.dtype in NAMES else _bytes_of(tensor))
        return _Place(len(kinds) - 1)

    def packed_entry(key: Any, entry: Any) -> Any:
        number = key if isinstance(key, int) and 0 <= key < len(parameters) else 0
        step = entry.get("step") if isinstance(entry, dict) else None
        return _mapped(entry, lambda value: packed(value, number, step))

    told, entries = snapshot.told, _entries(snapshot.told)
    if entries and parameters:
        homed = {key: packed_entry(key, entry) for key, entry in entries.items()}
        rest = {key: value for key, value in told.items() if value is not entries}
        skeleton = {"state": homed, **_mapped(rest, packed)}
    else:
        skeleton = _mapped(told, packed)
    return Packed(skeleton, kinds, snapshot.exact), sent


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    dense = torch.empty_like(tensor).copy_(tensor)
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)


def to_receive(packed: Packed) -> list[torch.Tensor]:
    """Tensors for those that another rank sends."""
    made = [
        torch.empty_strided(kind.shape, kind.strides, dtype=kind.dtype, device="cpu")
        for kind in packed.kinds
        if kind.itself is None
    ]
    return [tensor if tensor.dtype in NAMES else _bytes_of(tensor) for tensor in made]


def unpack(
    optimizer: torch.optim.Optimizer, packed: Packed, received: Iterable[torch.Tensor]
) -> Snapshot:
    """Undoes `pack`, with tensors on the devices of this rank's parameters."""
    parameters, arrived = _parameters(optimizer), iter(received)
    tensors = []
    for kind in packed.kinds:
        tensor = next(arrived) if kind.itself is None else kind.itself
        if tensor.dtype != kind.dtype:
            tensor = tensor.view(kind.dtype).as_strided(kind.shape, kind.strides)
        if kind.home is not None and kind.home < len(parameters):
            tensor = tensor.to(parameters[kind.home].device)
        tensors.append(tensor)

    def unpacked(value: Any) -> Any:
        return tensors[value.number] if isinstance(value, _Place) else value

    return Snapshot(_mapped(packed.skeleton, unpacked), packed.exact)


def _loadable(snapshot: Snapshot) -> Any:
    """What an optimizer has told, without values at which `load_state_dict` fails."""
    if not snapshot.exact:
        return snapshot.told

    def harmless(value: Any) -> Any:
        known = isinstance(value, torch.Tensor) or type(value) in _REBUILT
        return value if known or not isinstance(value, Iterable) else _Opaque()

    entries = _entries(snapshot.told)
    loadable = dict(entries)
    for name, keys in snapshot.exact.items():
        entry = entries[name]
        loadable[name] = (
            _mapped(entry, harmless)
            if keys is None
            else {**entry, **{key: _mapped(entry[key], harmless) for key in keys}}
        )
    return {**snapshot.told, "state": loadable}


def _take_over(old: dict[Any, Any], new: Mapping[Any, Any]) -> None:
    """Puts options into a group, and tensors into those that it has where they fit."""
    for key, value in new.items():
        present = old.get(key)
        if (
            isinstance(value, torch.Tensor)
            and isinstance(present, torch.Tensor)
            and (present.shape, present.dtype) == (value.shape, value.dtype)
        ):
            present.detach().copy_(value)
        else:
            old[key] = value


def _fits(present: Any, value: torch.Tensor) -> bool:
    return (
        isinstance(present, torch.Tensor)
        and (present.shape, present.dtype, present.device)
        == (value.shape, value.dtype, value.device)
        and present.layout == value.layout == torch.strided
    )


def _settled(present: Any, value: Any, filled: set[int]) -> Any:
    """A value, in the tensors, dicts and lists that there are where they fit.

    Args:
        present: what stands in its place until now.
        value: what is to stand there.
        filled: where tensors lie that have their values: two may be one here and not there.
    """
    if present is value:
        return value
    if isinstance(value, torch.Tensor):
        if not _fits(present, value) or present.data_ptr() in filled:
            return value
        if present.numel() > 0:
            filled.add(present.data_ptr())
        present.detach().copy_(value)
        return present
    if type(value) is dict and type(present) is dict:
        items = {key: _settled(present.get(key), item, filled) for key, item in value.items()}
        present.clear()
        present.update(items)
        return present
    if type(value) in (list, tuple) and type(present) is type(value):
        places = [*present[: len(value)], *[None] * (len(value) - len(present))]
        settled = [_settled(*each, filled) for each in zip(places, value, strict=True)]
        if type(value) is tuple:
            return tuple(settled)
        present[:] = settled
        return present
    return value


@dataclass(frozen=True)
class _Before:
    """What an optimizer had before `load_state_dict`.

    Attributes:
        groups: the list of its groups.
        each_group: those in it.
    """

    optimizer: torch.optim.Optimizer
    groups: Any
    each_group: list[dict[str, Any]]
    state: Any


def _look_at(optimizer: torch.optim.Optimizer) -> list[_Before]:
    """Notes what an optimizer has, and those that it is made of, as Lookahead and SAM are."""
    found = [optimizer]
    for each in found:
        within = (one for one in vars(each).values() if isinstance(one, torch.optim.Optimizer))
        found += [one for one in within if all(one is not other for other in found)]
    return [
        _Before(each, each.param_groups, list(each.param_groups), each.state)
        for each in found
        if hasattr(each, "param_groups") and hasattr(each, "state")
    ]


def _put_back(before: Sequence[_Before], name: str, made: Sequence[Any], old: Any) -> None:
    """Has optimizers keep an object in place of those that `load_state_dict` has made for it."""
    for each in before:
        present = getattr(each.optimizer, name)
        if present is not old and any(present is one for one in made):
            # It may be a property, which tells what an optimizer within has.
            with contextlib.suppress(AttributeError):
                setattr(each.optimizer, name, old)


def _keep_groups(before: Sequence[_Before]) -> None:
    """Has an optimizer, and those within that share its groups, keep them with loaded values.

    Where several have loaded groups of their own, those of the outermost count.
    """
    outer = before[0]
    own = {id(group) for group in outer.each_group}
    filled: set[int] = set()
    for each in before:
        made = each.optimizer.param_groups
        pairs = zip(each.each_group, made, strict=each is outer)
        for place, (group, loaded) in enumerate(pairs):
            if id(group) not in own or loaded is group:
                continue
            if id(group) not in filled:
                filled.add(id(group))
                _take_over(group, loaded)
            # Whoever has been given the list that was made gets the groups with it.
            made[place] = group
    lists = [each.optimizer.param_groups for each in before if each.groups is outer.groups]
    _put_back(before, "param_groups", lists, outer.groups)


def _keep_state(before: Sequence[_Before]) -> dict[Any, Any]:
    """Has an optimizer, and those within that share its state, keep it; returns what was loaded."""
    old = before[0].state
    now = [each.optimizer.state for each in before if each.state is old]
    made = [each for each in now if each is not old]
    loaded = dict(made[0] if made else old)
    _put_back(before, "state", made, old)
    return loaded


def load(optimizer: torch.optim.Optimizer, snapshot: Snapshot) -> None:
    """Gives an optimizer a state, in the groups and tensors that there are.

    `load_state_dict` makes new ones, while learning-rate schedulers, and the optimizer that a
    wrapped one was made of, go on with the old ones. It also casts what floats to the parameter's
    type, and fails at some values, or spoils them. It is called nevertheless, for what subclasses,
    wrappers and hooks do there. Gradients that are on their way stay so.

    Args:
        optimizer: of the same parameters as the one that told.
        snapshot: whose values the optimizer keeps, on the devices on which they are.
    """
    before, old_state = _look_at(optimizer), dict(optimizer.state)
    parameters = _parameters(optimizer)
    load_as_wrapped(optimizer, _loadable(snapshot))
    _keep_groups(before)
    loaded = _keep_state(before)
    state, entries = optimizer.state, _entries(snapshot.told)
    for name, keys in snapshot.exact.items():
        numbers_one = isinstance(name, int) and 0 <= name < len(parameters)
        key = parameters[name] if numbers_one else name
        entry, present = entries[name], loaded.get(key)
        if keys is None:
            loaded[key] = entry
        elif isinstance(present, dict):
            present.update({each: entry[each] for each in keys})
    state.clear()
    filled: set[int] = set()
    for key, value in loaded.items():
        state[key] = _settled(old_state.get(key), value, filled)
