"""Pickling with cloudpickle, which takes lambdas and local classes too.

Where it is not installed, as by `pip install --no-deps`, pickle serves what it can.
"""

import contextlib
import importlib
import io
import pickle
import sys
import threading
from collections.abc import Iterator
from types import FunctionType
from typing import Any

_REGISTERING = threading.RLock()  # what one thread has registered, another one would take back
_HINT = "cloudpickle takes it along: pip install cloudpickle"


def dump(obj: Any, *, for_other_program: bool = False) -> bytes:
    """Pickles an object.

    Args:
        obj: the object.
        for_other_program: who reads it runs another script, and so lacks what this one defines.

    Raises:
        PicklingError: it holds a function or class that takes cloudpickle, which is not installed.
    """
    cloudpickle = _find_cloudpickle()
    if cloudpickle is not None:
        with _script_by_value(cloudpickle) if for_other_program else contextlib.nullcontext():
            return bytes(cloudpickle.dumps(obj))
    if for_other_program:
        return _pickled(_PicklerForOtherProgram, obj)
    try:
        return pickle.dumps(obj)
    except (AttributeError, pickle.PicklingError):
        _pickled(_ExplainingPickler, obj)
        raise


@contextlib.contextmanager
def _script_by_value(cloudpickle: Any) -> Iterator[None]:
    """Has what the script defines taken along in multiprocessing's children too.

    There the script is `__mp_main__`, which other programs would look for in vain.
    """
    script = sys.modules.get("__mp_main__")
    register = getattr(cloudpickle, "register_pickle_by_value", None)  # from 2.0 on
    if script is None or script.__name__ != "__mp_main__" or register is None:
        yield
        return
    with _REGISTERING:
        was_registered = script.__name__ in cloudpickle.list_registry_pickle_by_value()
        register(script)
        try:
            yield
        finally:
            if not was_registered:
                cloudpickle.unregister_pickle_by_value(script)


def _find_cloudpickle() -> Any:
    """The module; None where it is not installed, or not ready for a signal's handler.

    A signal may come while the module is imported, in the same thread, which has a part of it then.
    """
    with contextlib.suppress(ModuleNotFoundError):
        cloudpickle = importlib.import_module("cloudpickle")
        return cloudpickle if hasattr(cloudpickle, "dumps") else None
    return None


def _pickled(pickler: "type[pickle.Pickler]", obj: Any) -> bytes:
    buffer = io.BytesIO()
    pickler(buffer).dump(obj)
    return buffer.getvalue()


def _is_code(obj: object) -> bool:
    return isinstance(obj, (FunctionType, type))


class _ExplainingPickler(pickle.Pickler):
    """Says of a function or class without a name of its own what would pickle it."""

    def reducer_override(self, obj: Any) -> Any:
        """Refuses such an object; lets all others be pickled as always."""
        if _is_code(obj) and {"<lambda>", "<locals>"} & set(obj.__qualname__.split(".")):
            raise pickle.PicklingError(
                f"pickle cannot take {obj!r}, which is defined inside a function or has no name;"
                f" {_HINT}"
            )
        return NotImplemented


class _PicklerForOtherProgram(_ExplainingPickler):
    """Refuses what this script defines as well."""

    def reducer_override(self, obj: Any) -> Any:
        """Refuses such an object; lets all others be pickled as always."""
        if _is_code(obj) and obj.__module__ in {"__main__", "__mp_main__"}:
            raise pickle.PicklingError(
                f"pickle cannot take {obj!r}, which this script defines, to ranks that run another"
                f" one; define it in a module that they can import. Or {_HINT}"
            )
        return super().reducer_override(obj)
