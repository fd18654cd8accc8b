"""Horovod's collective-communication API, natively built for the hardware at hand.

Importing this package loads no native code and starts nothing; `horovod.torch` and `horovod.array`
do the work, `horovodrun` starts the ranks.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horovod.runner.run_function import run

__all__ = ["__version__", "run"]


def __getattr__(name: str) -> Any:
    """Looks names up when they are asked for, so that the import itself stays cheap."""
    if name == "__version__":
        return importlib.import_module("horovod._installation").version()
    if name == "run":
        return importlib.import_module("horovod.runner.run_function").run
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
