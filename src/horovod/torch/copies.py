"""Copies of wrapped optimizers, which tell their state, and are not wrapped."""

import copy
import pickle
from typing import Any

_COPY_STATE = (
    "an optimizer that DistributedOptimizer has wrapped cannot be copied or saved with what follows"
    " its gradients: copy or save optimizer.state_dict(), and wrap anew"
)


class _UncopiedError(AttributeError, TypeError):
    """What a copy of a wrapped optimizer has not."""


class Uncopied:
    """Stands in the class for what an optimizer has got by being wrapped, which a copy has not."""

    def __get__(self, optimizer: object, kind: type | None = None) -> Any:
        raise _UncopiedError(_COPY_STATE)


def _copied(derived: Any, memo: dict[int, Any] | None = None) -> Any:
    """What copies of an optimizer are: of its class, and able to tell its state."""
    made: Any = object.__new__(type(derived))
    state = derived.__getstate__()
    if memo is not None:
        memo[id(derived)] = made
        state = copy.deepcopy(state, memo)
    made.__setstate__(state)
    return made


def _reduce_ex(derived: Any, protocol: Any) -> Any:
    """Refuses a pickle that nobody could read, as the class has no place in a module.

    Raises:
        TypeError: that is so. cloudpickle, which takes the class along, asks for the last protocol.
    """
    if protocol < pickle.HIGHEST_PROTOCOL:
        raise TypeError(_COPY_STATE)
    return object.__reduce_ex__(derived, protocol)


def copying_of(kind: Any) -> dict[str, Any]:
    """The methods by which optimizers that wrapping makes of a class are copied and pickled."""
    # A class may know better.
    if (kind.__reduce_ex__, kind.__reduce__) != (object.__reduce_ex__, object.__reduce__):
        return {}
    methods = {"__reduce_ex__": _reduce_ex, "__copy__": _copied, "__deepcopy__": _copied}
    return {
        name: method
        for name, method in methods.items()
        if name == "__reduce_ex__" or not hasattr(kind, name)
    }
