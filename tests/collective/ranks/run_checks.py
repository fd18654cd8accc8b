"""Runs each check of some files on this rank and writes down how it went.

Usage: run_checks.py FILE... FOLDER; writes FOLDER/RANK.json, check names to "" or a traceback.
With `HVD_TESTS_DEFAULT_GPU=1`, tensors of checks that name no device are made on a GPU.
A check that takes too long, and what its rank is doing then, is told on stderr.
"""

import faulthandler
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import pytest

import horovod.array as hvd

LONG = 100.0  # seconds, for one check; the launch is given up after three times as many


def main(*files: str, folder: str) -> None:
    hvd.init()
    if os.environ.get("HVD_TESTS_DEFAULT_GPU") == "1":
        from collective.ranks import default_device  # noqa: PLC0415 - PyTorch takes seconds

        default_device.use()
    outcomes: dict[str, str] = {}
    report = Path(folder) / f"{hvd.rank()}.json"
    checks = [item for file in files for item in runpy.run_path(file).items()]
    for name, check in checks:
        if not name.startswith("check_"):
            continue
        faulthandler.dump_traceback_later(LONG)
        try:
            check()
            outcomes[name] = ""
        # Whatever a check raises is its outcome; what pytest raises itself is no `Exception`.
        except (Exception, pytest.fail.Exception):  # noqa: BLE001
            outcomes[name] = traceback.format_exc()
        report.write_text(json.dumps(outcomes))
        hvd.barrier()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:-1], folder=sys.argv[-1])
