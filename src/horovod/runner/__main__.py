"""`python -m horovod.runner` is `horovodrun`."""

import sys

from horovod.runner.launch import run_commandline

if __name__ == "__main__":
    sys.exit(run_commandline())
