"""Process sets passed to init(), again after a shutdown; no others may be added."""

import os
import sys

import numpy as np
import pytest

import horovod.array as hvd

FRONT = hvd.ProcessSet([0, 1])
LAST = hvd.ProcessSet([2])

for _ in range(3):
    hvd.init(process_sets=[FRONT, LAST])
    mine = FRONT if FRONT.included() else LAST
    assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=mine).tolist() == [mine.size()]
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1"):
        hvd.add_process_set([1, 2])
    hvd.barrier()
    hvd.shutdown()
    assert FRONT.process_set_id is None
    with pytest.raises(ValueError, match="has not been registered"):
        hvd.allreduce(np.ones(1), process_set=FRONT)

hvd.init(process_sets="dynamic")
added = hvd.add_process_set([1, 2])
assert hvd.remove_process_set(added)
hvd.barrier()
hvd.shutdown()

unlike = hvd.ProcessSet([int(os.environ["HOROVOD_RANK"])])
with pytest.raises(hvd.HorovodInternalError, match=r"mismatching values|has been shut down"):
    hvd.init(process_sets=[unlike])
assert not hvd.is_initialized()
with pytest.raises(ValueError, match="is not accepted"):
    hvd.init(process_sets="static")
sys.stdout.write("ok\n")
