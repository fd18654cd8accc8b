"""Runs, on one rank, the function that was passed to `horovod.run`, and hands its result back."""

import os
import sys
from types import ModuleType

from horovod import _chosen_settings, _settings
from horovod._pickling import dump
from horovod._placement import store_endpoints
from horovod._unpickling import MARK, load
from horovod.runner import parcels
from horovod.runner.import_paths import ImportPaths
from horovod.runner.store_client import StoreClient

FUNCTION = "function"
_SECONDS = 60.0


def result_of(rank: int) -> str:
    """The name under which a rank's result stands in the store."""
    return f"result/{rank}"


def _own_rank() -> int:
    """Whose result it is, as horovodrun or an MPI launcher says."""
    if _settings.RANK.name in os.environ:
        return _settings.RANK.read(os.environ)
    from horovod._mpi import launched_rank  # noqa: PLC0415 - loads native code

    return launched_rank(os.environ)


def main() -> int:
    """Fetches the function, calls it and stores what it returns.

    Its modules are looked for where the caller looks for them; until it comes, in the current
    folder only if a variable names it.
    """
    # `__main__` is the caller's script in whatever is unpickled; this program's names are not its.
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv = [__file__]
    address = _settings.RENDEZVOUS_ADDRESS.read(os.environ)
    port = _settings.RENDEZVOUS_PORT.read(os.environ)
    secret = _settings.SECRET.read(os.environ)
    endpoints = store_endpoints(address, port)
    patience = _chosen_settings.start_timeout(os.environ)
    store = StoreClient(endpoints, secret, patience)
    parcel = parcels.unpack(FUNCTION, lambda key: store.get(key, _SECONDS))
    store.close()
    if parcel is None:
        sys.stderr.write("horovod.run: the store does not hold the function\n")
        return 1
    paths, _, marked = parcel.partition(b"\n")
    sys.path[:] = ImportPaths.decode(paths).around(sys.path)
    # Each of the store's replies has proved that who made it knows the job's secret.
    function = load(marked, "the caller of horovod.run", "this rank")
    result = MARK + dump(function())
    store = StoreClient(endpoints, secret, patience)
    for key, value in parcels.pack(result_of(_own_rank()), result):
        store.put(key, value)
    store.close()
    return 0
