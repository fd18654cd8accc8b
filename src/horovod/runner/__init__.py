"""Starting the ranks of a job, on this host and on others."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horovod.runner.run_function import run

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    """Loads the launcher when it is asked for: ranks import this package too."""
    if name in ("run", "_HorovodArgs"):
        return getattr(importlib.import_module("horovod.runner.run_function"), name)
    raise AttributeError(f"module 'horovod.runner' has no attribute {name!r}")
