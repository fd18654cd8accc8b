"""Loading what another process has pickled, perhaps one that runs another Python.

cloudpickle sends what a script defines as bytecode, which is different in each minor release of
CPython and is not looked at before it runs: that of another release crashes. So each pickle has a
mark in front of it, of the release that it comes from.
"""

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

MARK = bytes(sys.version_info[:2])

# cloudpickle's functions that make functions and classes, whichever copy of it has been used.
_MAKERS = frozenset(
    {"_make_function", "_make_skel_func", "_make_skeleton_class", "_make_skeleton_enum"}
)
_BUILTIN_TYPE = "_builtin_type"  # cloudpickle's, which finds types by their names in `types`
_CODE = frozenset({("types", "CodeType"), ("builtins", "code")})


class _BytecodeError(Exception):
    """A pickle holds a function or a class of another Python."""


def load(marked: "bytes | memoryview", sender: str, receiver: str) -> Any:
    """Loads an object.

    Args:
        marked: `MARK` as it is where the object has been pickled, and the pickle.
        sender: who has pickled it, for the error message.
        receiver: who this is.

    Raises:
        UnpicklingError: the sender's Python is another one, and the object cannot be loaded in
            this one; else whatever pickle raises, with a note of whose object it was.
    """
    view = memoryview(marked)
    mark, pickled = bytes(view[: len(MARK)]), view[len(MARK) :]
    if mark == MARK:
        try:
            return pickle.loads(pickled)  # noqa: S301 - the caller knows who has written it
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note(f"So ended the attempt to load what {sender} has pickled.")
            raise
    theirs, own = (".".join(map(str, release)) for release in (mark, MARK))
    where = f"{sender} runs Python {theirs}, {receiver} {own}"
    try:
        return _UnpicklerWithoutCode(io.BytesIO(pickled)).load()
    except _BytecodeError:
        raise pickle.UnpicklingError(
            f"{where}: lambdas, and functions and classes defined in a script or in a function,"
            " cannot pass between them; define them in a module that both import"
        ) from None
    except Exception as error:
        raise pickle.UnpicklingError(
            f"{where}, where the object cannot be loaded: {type(error).__name__}: {error}"
        ) from error


class _UnpicklerWithoutCode(pickle.Unpickler):
    """Refuses what another Python's bytecode comes with."""

    def find_class(self, module: str, name: str) -> Any:
        """Finds what a pickle names, as always, but for makers of functions and classes."""
        of_cloudpickle = "cloudpickle" in module.split(".")
        if (module, name) in _CODE or (of_cloudpickle and name in _MAKERS):
            raise _BytecodeError
        found = super().find_class(module, name)
        if of_cloudpickle and name == _BUILTIN_TYPE:
            return _builtin_type_but_code(found)
        return found


def _builtin_type_but_code(find: Callable[[str], Any]) -> Callable[[str], Any]:
    def find_but_code(name: str) -> Any:
        if ("types", name) in _CODE:
            raise _BytecodeError
        return find(name)

    return find_but_code
