"""Rank 0's standard error is a full pipe while rank 1 is late; then it is read after all."""
# ruff: noqa: T201 - the test reads what is printed

import os
import select
import time

import numpy as np

import horovod.array as hvd

WARNING = b"allreduce 'allreduce.late'"
hvd.init()
reader, writer = os.pipe()
if hvd.rank() == 0:
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    os.dup2(writer, 2)
else:
    time.sleep(8)
try:
    hvd.allreduce(np.ones(4, np.float32), name="late")
    print("fine", flush=True)
except hvd.HorovodInternalError as error:
    print(f"failed: {error}", flush=True)
text = b""
while hvd.rank() == 0 and WARNING not in text:
    if not select.select([reader], [], [], 20)[0]:
        break
    text += os.read(reader, 1 << 16)
print("told" if WARNING in text else "nothing to tell", flush=True)
