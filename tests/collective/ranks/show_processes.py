"""Says the job's secret and the command lines of all processes of this machine."""
# ruff: noqa: T201 - the test reads what is printed

import contextlib
import os
from pathlib import Path

print(os.environ["_HOROVOD_SECRET_KEY"])
for path in Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(OSError):  # ended meanwhile
        print(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
