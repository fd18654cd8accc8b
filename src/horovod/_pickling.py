"""Pickling with cloudpickle, which takes lambdas and local classes too, where it is installed."""

import importlib
import importlib.util
import pickle
from typing import Any


def dump(obj: Any) -> bytes:
    """Pickles an object."""
    if importlib.util.find_spec("cloudpickle") is not None:
        return bytes(importlib.import_module("cloudpickle").dumps(obj))
    return pickle.dumps(obj)
