"""Runs each check of a file on this rank and writes down how it went.

Usage: run_checks.py FILE FOLDER; writes FOLDER/RANK.json, check names to "" or a traceback.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import horovod.array as hvd


def main(file: str, folder: str) -> None:
    hvd.init()
    outcomes: dict[str, str] = {}
    report = Path(folder) / f"{os.environ['HOROVOD_RANK']}.json"
    for name, check in runpy.run_path(file).items():
        if not name.startswith("check_"):
            continue
        try:
            check()
            outcomes[name] = ""
        except Exception:  # noqa: BLE001 - whatever a check raises is its outcome
            outcomes[name] = traceback.format_exc()
        report.write_text(json.dumps(outcomes))
        hvd.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
