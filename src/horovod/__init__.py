"""Horovod's collective-communication API, natively built for the hardware at hand.

Importing this package loads no native code and starts nothing; `horovod.torch` and `horovod.array`
do the work, `horovodrun` starts the ranks.
"""

import importlib
from typing import Any

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """Looks the version up when it is asked for, so that the import itself stays cheap."""
    if name == "__version__":
        return importlib.import_module("horovod._installation").version()
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
