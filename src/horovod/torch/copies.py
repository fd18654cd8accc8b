"""Copies of wrapped optimizers, which tell their state, and are not wrapped."""

import copy
import copyreg
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


class _ByValue(type):
    """The class of a class that pickles only who takes classes along, as cloudpickle does."""


def _refuse(_: _ByValue) -> Any:
    """What picklers call that would name a class, if it is one of these.

    Raises:
        TypeError: the class of wrapped optimizers has no name by which it could be found.
    """
    raise TypeError(_COPY_STATE)


copyreg.pickle(_ByValue, _refuse)
_TAKEN_ALONG = _ByValue("TakenAlong", (), {})  # a name that nothing in this module has


def _make(_: object, make: Any, arguments: Any) -> Any:
    """Makes what is unpickled."""
    return make(*arguments)


def _reduce_ex(derived: Any, protocol: Any) -> Any:
    """What is pickled: first of all a class at which all fails that would fail at the optimizer's.

    That one has no place in a module. cloudpickle takes both along.
    """
    reduced: Any = object.__reduce_ex__(derived, max(protocol, 2))
    make, arguments, *rest = reduced
    return (_make, (_TAKEN_ALONG, make, arguments), *rest)


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
