"""The benchmark of installations as docs/toolkit-performance.md gives it, with few turns."""

import json
import sys

from integration.environments import ROOT, run


def test_installing_is_measured() -> None:
    command = (sys.executable, ROOT / "bench/installing.py", "--sizes-mib", "0.1", "--rounds", "1")
    rows = json.loads(run(*command, "--json").stdout)
    assert [row["installer"] for row in rows] == ["pip", "uv"]
    for row in rows:
        for contender in ("direct", "copying", "selector"):
            assert len(row[contender]) == 1
            assert all(seconds > 0 for seconds, _ in row[contender])
