"""Starts a child of its own, says both process numbers, and waits; `stubborn` ignores SIGTERM.

`leave` ends instead, and leaves a child that does not hold the output open.
"""
# ruff: noqa: T201 - the test reads what is printed

import os
import signal
import subprocess
import sys

if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
output = subprocess.DEVNULL if "leave" in sys.argv else None
pause = [sys.executable, "-c", "import signal; signal.pause()"]
child = subprocess.Popen(pause, stdout=output, stderr=output)
print(os.getpid(), child.pid, flush=True)
if "fail" in sys.argv and os.environ["HOROVOD_RANK"] == "1":
    sys.exit(9)
if "leave" in sys.argv:
    sys.exit(0)
signal.pause()
