"""Tries out in a process of its own what this build can do here, and prints it as JSON.

Run by `horovodrun --check-build`: a library that crashes takes only this process with it.
"""

import json
import os
import sys
from collections.abc import Mapping

RUNTIME, TORCH = "runtime", "torch"


def try_runtime() -> Mapping[str, object]:
    """Starts a job of one rank, and says what came of it."""
    from horovod._gpu import gpu_support  # noqa: PLC0415 - loads native code
    from horovod._loader import _bindings  # noqa: PLC0415 - as above
    from horovod._session import SESSION  # noqa: PLC0415 - as above

    support = gpu_support()
    SESSION.start()
    member = SESSION.member
    facts: dict[str, object] = {
        "level": member.runtime.isa,
        "levels": list(member.core.levels),
        "cpu": member.core.cpu,
        "library": str(member.core.path),
        "kernels": str(member.core.kernels or member.core.path),
        "transport": member.runtime.transport,
        "gpu": support.kind,
    }
    if support.kind:
        # A number, or why there is none.
        names = support.runtime_arguments()["nccl_libraries"]
        facts["nccl"] = _bindings.nccl_version(member.core.file, names)
    facts["mpi"] = dict(_try_mpi(member.core.file))
    SESSION.stop()
    return facts


def _try_mpi(core: bytes) -> Mapping[str, object]:
    """Opens the MPI that is found here, and says which, or why there is none."""
    from horovod._mpi import MpiNotFoundError, built_families, find_mpi  # noqa: PLC0415 - as above

    built = list(built_families())
    try:
        choice, version = find_mpi(core)
    except MpiNotFoundError as error:
        return {"built": built, "version": None, "reason": str(error)}
    return {"built": built, "version": version, "library": choice.library, "reason": choice.reason}


def try_torch() -> Mapping[str, object]:
    """Imports the PyTorch front end, and says which PyTorch it has found."""
    import torch  # noqa: PLC0415 - takes seconds, and may be absent

    import horovod.torch  # noqa: PLC0415 - as above

    return {"torch": torch.__version__, "module": horovod.torch.__name__}


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith(("HOROVOD_", "_HOROVOD_"))]:
        if name != "HOROVOD_MPI_LIBRARY":
            del os.environ[name]  # one rank, on its own, wherever this is asked
    os.environ["HOROVOD_CONTROLLER"] = "gloo"  # inside of an mpirun too
    facts = try_runtime() if sys.argv[1] == RUNTIME else try_torch()
    sys.stdout.write(json.dumps(facts) + "\n")
