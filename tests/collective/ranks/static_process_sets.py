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

# Named twice, or all ranks: the job runs with what remains, which can be looked up then.
for twice in ([0], range(3)):
    unused = hvd.ProcessSet(twice)
    with pytest.warns(UserWarning, match=r"the same ranks already exists; it is left out"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([1, 2]), unused])
    assert hvd.size() == 3
    assert unused.process_set_id is None
    with pytest.raises(ValueError, match="has not been registered"):
        hvd.allreduce(np.ones(1), process_set=unused)
    pair, first = hvd.ProcessSet([2, 1]), hvd.ProcessSet([0])
    hvd.init(process_sets=[pair, first])
    hvd.init(process_sets=[[1, 2], [0]])
    assert (first.process_set_id, pair.process_set_id) == (1, 2)
    mine = first if first.included() else pair
    assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=mine).tolist() == [mine.size()]
    for sets in ([first, hvd.ProcessSet([0])], [hvd.ProcessSet(range(3))]):
        with pytest.warns(UserWarning, match="is a duplicate of another"):
            hvd.init(process_sets=sets)
    with pytest.raises(ValueError, match="there is no such process set"):
        hvd.init(process_sets=[hvd.ProcessSet([1])])
    assert not hvd.remove_process_set(hvd.global_process_set)
    assert not hvd.remove_process_set(hvd.ProcessSet([1]))
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS=1"):
        hvd.remove_process_set(pair)
    hvd.barrier()
    hvd.shutdown()
    assert pair.process_set_id is None
with pytest.raises(ValueError, match="from 0 to 2"):
    hvd.init(process_sets=[hvd.ProcessSet([3])])
assert not hvd.is_initialized()
assert hvd.global_process_set.ranks == []

hvd.init(process_sets="dynamic")
for _ in range(2):
    added = hvd.add_process_set([1, 2])
    same = hvd.ProcessSet([1, 2])
    hvd.init(process_sets=[same])
    assert same.process_set_id == added.process_set_id
    assert hvd.remove_process_set(added)
    assert same.process_set_id is None
    hvd.barrier()
    hvd.shutdown()
    hvd.init()  # which stays dynamic
hvd.shutdown()

unlike = hvd.ProcessSet([int(os.environ["HOROVOD_RANK"])])
with pytest.raises(hvd.HorovodInternalError, match=r"mismatching values|has been shut down"):
    hvd.init(process_sets=[unlike])
assert not hvd.is_initialized()
with pytest.raises(ValueError, match="is not accepted"):
    hvd.init(process_sets="static")
sys.stdout.write("ok\n")
