"""Process sets, groups, join and fusion, against NumPy's results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import horovod.array as hvd
from horovod._collectives import COLLECTIVES
from horovod._session import SESSION
from horovod.common import process_sets
from horovod.common.basics import HorovodBasics

REDUCTIONS: dict[int, Callable[..., Any]] = {
    hvd.Sum: np.add.reduce,
    hvd.Min: np.minimum.reduce,
    hvd.Max: np.maximum.reduce,
    hvd.Product: np.multiply.reduce,
}
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")

SETS: list[hvd.ProcessSet] = []


def sets() -> list[hvd.ProcessSet]:
    """All ranks but the last, the ranks in even places, the last rank alone: added once."""
    if not SETS:
        n = hvd.size()
        SETS.append(hvd.add_process_set(range(n - 1)))
        SETS.append(hvd.add_process_set(hvd.ProcessSet(list(range(0, n, 2))[::-1])))
        SETS.append(hvd.add_process_set([n - 1]))
    return SETS


def failure_of(operation: Callable[[], Any]) -> str:
    with pytest.raises(hvd.HorovodInternalError) as failure:
        operation()
    return str(failure.value)


def check_sets_know_their_ranks() -> None:
    n, me = hvd.size(), hvd.rank()
    front, even, last = sets()
    assert even.ranks == list(range(0, n, 2))
    assert (front.size(), even.size(), last.size()) == (n - 1, (n + 1) // 2, 1)
    assert even.included() == (me % 2 == 0)
    if me % 2 == 0:
        assert even.rank() == me // 2
    else:
        with pytest.raises(ValueError, match=f"rank {me} is not a member"):
            even.rank()
    unregistered = hvd.ProcessSet([me])
    assert unregistered.size() is None
    assert unregistered.rank() is None
    assert hvd.global_process_set.size() == n
    assert hvd.global_process_set.rank() == me
    ids = [s.process_set_id for s in (front, even, last)]
    assert len({0, *ids}) == 4
    table = process_sets.get_process_set_ids_and_ranks()
    assert table[0] == list(range(n))
    assert [table[i or -1] for i in ids] == [front.ranks, even.ranks, last.ranks]
    basics = HorovodBasics()
    assert basics._get_process_set_ids_and_ranks() == table
    assert basics.process_set_included(0)
    assert basics.process_set_included(even.process_set_id or -1) == (me % 2 == 0)
    with pytest.raises(ValueError, match="does not exist"):
        basics.process_set_included(999)


def check_every_operation_over_a_set() -> None:
    for members in sets():
        if not members.included():
            continue
        ranks, place = members.ranks, members.ranks.index(hvd.rank())
        mine = np.array([hvd.rank() + 1.0, 2.0])
        total = sum(r + 1.0 for r in ranks)
        result = hvd.allreduce(mine, op=hvd.Sum, process_set=members)
        assert result.tolist() == [total, 2.0 * len(ranks)]
        average = hvd.allreduce(mine, process_set=members)
        assert average.tolist() == [total / len(ranks), 2.0]
        ragged = np.full((place, 2), hvd.rank())
        gathered = hvd.allgather(ragged, process_set=members)
        assert gathered[:, 0].tolist() == [r for p, r in enumerate(ranks) for _ in range(p)]
        for root in ranks:
            assert hvd.broadcast(mine, root, process_set=members)[0] == root + 1.0
        splits = [1] * len(ranks)
        outgoing = np.arange(len(ranks)) + 100 * hvd.rank()
        got, rows = hvd.alltoall(outgoing, splits=splits, process_set=members)
        assert got.tolist() == [100 * r + place for r in ranks]
        assert list(rows) == splits
        whole = np.arange(2.0 * len(ranks)) * (hvd.rank() + 1)
        part = hvd.reducescatter(whole, op=hvd.Sum, process_set=members)
        assert part.tolist() == [2 * place * total, (2 * place + 1) * total]
        hvd.barrier(process_set=members)
        assert hvd.broadcast_object({"from": hvd.rank()}, ranks[-1], process_set=members) == {
            "from": ranks[-1]
        }


def check_a_rank_outside_is_refused() -> None:
    _, even, last = sets()
    outside = last if hvd.rank() != hvd.size() - 1 else None
    if outside is not None:
        for operation in (
            lambda: hvd.allreduce(np.ones(2), process_set=outside),
            lambda: hvd.barrier(process_set=outside),
            lambda: hvd.alltoall(np.ones(1), process_set=outside),
        ):
            with pytest.raises(ValueError, match=r"is not a member of the provided process set"):
                operation()
    if even.included():
        with pytest.raises(ValueError, match="root rank"):
            hvd.broadcast(np.ones(2), 1, process_set=even)


def check_a_set_does_not_wait_for_another() -> None:
    """The even ranks finish while an operation of all ranks still lacks rank 1."""
    even = sets()[1]
    handle = None
    if hvd.rank() != 1:
        handle = hvd.allreduce_async(np.ones(1), name="late", op=hvd.Sum)
    if even.included():
        for _ in range(10):
            sums = hvd.allreduce(np.ones(3), op=hvd.Sum, process_set=even)
            assert sums.tolist() == [even.size()] * 3
        hvd.allgather(np.ones(1), name="same name", process_set=even)
    if hvd.rank() == 1:
        # Told by rank 0 once the even ranks have been through.
        assert hvd.broadcast(np.zeros(1), 0, name="go")[0] == 1.0
        handle = hvd.allreduce_async(np.ones(1), name="late", op=hvd.Sum)
    else:
        hvd.broadcast(np.ones(1), 0, name="go")
    assert hvd.synchronize(handle or 0).tolist() == [hvd.size()]


def check_names_are_apart_in_each_set() -> None:
    members = [s for s in sets() if s.included()]
    handles = [
        hvd.allreduce_async(np.full(2, 1.0), name="shared", op=hvd.Sum, process_set=s)
        for s in [hvd.global_process_set, *members]
    ]
    for s, handle in zip([hvd.global_process_set, *members], handles, strict=True):
        assert hvd.synchronize(handle).tolist() == [float(len(s.ranks))] * 2


def check_mismatches_within_a_set_leave_the_others_alone() -> None:
    front = sets()[0]
    if front.included() and len(front.ranks) > 1:
        odd = np.ones(3 if front.rank() == 0 else 2)
        text = failure_of(lambda: hvd.allreduce(odd, name="odd", process_set=front))
        assert "Mismatched ALLREDUCE tensor shapes" in text
    assert hvd.allreduce(np.ones(1), op=hvd.Sum).tolist() == [hvd.size()]


def check_sets_that_cannot_be_are_refused() -> None:
    sets()
    n = hvd.size()
    for ranks, text in (
        ([], "at least one rank"),
        ([n], "from 0 to"),
        ([0, 0], "none of them twice"),
        ([n - 1], "already exists"),
        (list(range(n)), "already exists"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.add_process_set(ranks)
    named: list[Any] = [object(), 3, "01", b"01", ["0"], [0.5], [None, 1], {"a": 1}]
    for ranks in named:
        with pytest.raises(ValueError, match="takes whole numbers, the ranks of its members"):
            hvd.ProcessSet(ranks)


def check_ranks_may_come_from_anything_that_has_them() -> None:
    ranks: list[Any] = [
        reversed(range(3)),
        (rank for rank in (1, 0, 2)),
        {2: "a", 0: "b", 1: "c"}.keys(),
        {0, 1, 2},
        np.arange(3),
    ]
    for each in ranks:
        named = hvd.ProcessSet(each).ranks
        assert named == [0, 1, 2]
        assert all(type(rank) is int for rank in named)


def check_unlike_sets_fail_on_all_ranks() -> None:
    sets()
    ranks = [0] if hvd.rank() == 0 else [1]
    text = failure_of(lambda: hvd.add_process_set(ranks))
    assert "Attempted to add process sets with mismatching values on different ranks" in text
    number = 998 if hvd.rank() == 0 else 999
    text = failure_of(lambda: COLLECTIVES.remove_process_set(number))
    assert "Attempted to remove process set with mismatching values on different ranks" in text
    assert "does not exist" in failure_of(lambda: COLLECTIVES.remove_process_set(999))


def check_a_removed_set_fails_what_it_has_pending() -> None:
    members = hvd.add_process_set([1])
    pair = hvd.add_process_set([1, hvd.size() - 1])
    handle = None
    if hvd.rank() == 1:
        handle = hvd.allreduce_async(np.ones(1), name="never", process_set=pair)
        assert hvd.allreduce(np.ones(1), process_set=members).tolist() == [1.0]
    assert hvd.remove_process_set(members)
    assert members.process_set_id is None
    assert hvd.remove_process_set(pair)
    if handle is not None:
        assert "was removed" in failure_of(lambda: hvd.synchronize(handle))
    assert not hvd.remove_process_set(pair)
    assert not hvd.remove_process_set(hvd.global_process_set)
    assert not hvd.remove_process_set(hvd.ProcessSet([0]))
    with pytest.raises(ValueError, match="has not been registered"):
        hvd.allreduce(np.ones(1), process_set=pair)
    # A new set of the same ranks has another number.
    again = hvd.add_process_set([1, hvd.size() - 1])
    if again.included():
        assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=again).tolist() == [2.0]
    assert hvd.remove_process_set(again)
    registered = [*map(id, SESSION.member.registered)]
    assert not [each for each in (members, pair, again) if id(each) in registered]
    with pytest.raises(TypeError, match="must be a ProcessSet, not list"):
        hvd.remove_process_set([0])  # type: ignore[arg-type]


def check_groups() -> None:
    n, me = hvd.size(), hvd.rank()
    arrays = [np.full(i + 1, me + i, dtype) for i, dtype in enumerate(DTYPES)]
    expected = [np.full(i + 1, sum(r + i for r in range(n))) for i in range(len(DTYPES))]
    for result, want, array in zip(
        hvd.grouped_allreduce(arrays, op=hvd.Sum), expected, arrays, strict=True
    ):
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, want)
    copies = [array.copy() for array in arrays]
    results = hvd.grouped_allreduce_(copies, op=hvd.Sum, name="in place")
    assert all(a is b for a, b in zip(results, copies, strict=True))
    for copy, want in zip(copies, expected, strict=True):
        np.testing.assert_array_equal(copy, want)
    rows = [np.full((me + i, 2), me, np.int16) for i in range(3)]
    for i, gathered in enumerate(hvd.grouped_allgather(rows)):
        assert gathered[:, 1].tolist() == [r for r in range(n) for _ in range(r + i)]
    parts = hvd.grouped_reducescatter([np.ones((n, 2)), np.ones(2 * n)], op=hvd.Sum)
    assert [part.tolist() for part in parts] == [[[n, n]], [n, n]]
    assert hvd.grouped_allreduce([]) == []
    assert hvd.grouped_allgather([]) == []


def check_a_group_runs_when_every_member_is_there() -> None:
    """One rank comes late with the group; a single operation passes it by meanwhile."""
    late = hvd.rank() == hvd.size() - 1
    arrays = [np.ones(2), np.ones(3)]
    handle = None if late else hvd.grouped_allreduce_async(arrays, name="group", op=hvd.Sum)
    assert hvd.allreduce(np.ones(1), op=hvd.Sum).tolist() == [hvd.size()]
    if handle is None:
        handle = hvd.grouped_allreduce_async(arrays, name="group", op=hvd.Sum)
    assert [r.tolist() for r in hvd.synchronize(handle)] == [[hvd.size()] * 2, [hvd.size()] * 3]


def check_unlike_groups_fail_on_all_ranks() -> None:
    odd = hvd.rank() == 0
    text = failure_of(lambda: hvd.grouped_allreduce([np.ones(1)] * (3 if odd else 2), name="g"))
    assert "Mismatched ALLREDUCE groups: One rank sent a group of 3 tensors" in text

    def one_or_group() -> Any:
        one = np.ones(1)
        return hvd.allreduce(one, name="g") if odd else hvd.grouped_allreduce([one], name="g")

    assert "a tensor without a group" in failure_of(one_or_group)
    text = failure_of(
        lambda: hvd.grouped_allreduce([np.ones(1), np.ones(1 if odd else 2)], name="g")
    )
    assert "Mismatched ALLREDUCE tensor shapes" in text


def check_join_gives_zeros() -> None:
    n, me = hvd.size(), hvd.rank()
    for first in range(n):
        if me == first:
            hvd.join()
            continue
        # Only rank `first` has joined, now or later; it stands in with zeros.
        total = hvd.allreduce(np.full(3, me + 1.0), name="sum", op=hvd.Sum)
        assert total.tolist() == [sum(r + 1.0 for r in range(n) if r != first)] * 3
        average = hvd.allreduce(np.full(2, 1.0), name="average")
        assert average.tolist() == [(n - 1) / n] * 2
        group = hvd.grouped_allreduce([np.ones(2), np.ones(1, np.int32)], name="g", op=hvd.Sum)
        assert [g.tolist() for g in group] == [[n - 1] * 2, [n - 1]]
        hvd.join()


def check_join_tells_who_was_last() -> None:
    """Every rank but one joins; that one waits for their zeros before it joins as the last."""
    for last in range(hvd.size()):
        if hvd.rank() == last:
            while hvd.allreduce(np.ones(1), name=f"alone {last}", op=hvd.Sum)[0] != 1.0:
                pass
        assert hvd.join() == last


def check_join_refuses_what_needs_all() -> None:
    one = np.ones((1, 2))
    refused: dict[str, Callable[[], Any]] = {
        "Allgather is not supported with Join at this time. Specify sparse_to_dense=True if using"
        " DistributedOptimizer": lambda: hvd.allgather(one, name="x"),
        "Broadcast is not supported with Join at this time.": lambda: hvd.broadcast(
            one, hvd.size() - 1, name="x"
        ),
        "Alltoall is not supported with Join at this time.": lambda: hvd.alltoall(
            one, [0] * hvd.size(), name="x"
        ),
        "Reducescatter is not supported with Join at this time.": lambda: hvd.reducescatter(
            one, name="x"
        ),
        "Min is not supported with Join at this time.": lambda: hvd.allreduce(
            one, name="x", op=hvd.Min
        ),
    }
    if hvd.rank() != 0:
        for text, operation in refused.items():
            assert text in failure_of(operation)
    hvd.join()


def check_thousands_of_tensors_at_once() -> None:
    """Sizes around the buffer's, in different orders, types and factors, all in flight."""
    n, me = hvd.size(), hvd.rank()
    count = 3_000
    generator = np.random.default_rng(5)
    sizes = generator.integers(0, 600, count)
    sizes[::487] = 200_000
    kinds = generator.integers(0, 3, count)
    handles = {}
    order = range(count) if me % 2 == 0 else reversed(range(count))
    for i in order:
        array = np.full(sizes[i], me + i % 7, ("float32", "int64", "float32")[kinds[i]])
        factor = 2.0 if kinds[i] == 2 else 1.0
        handles[i] = hvd.allreduce_async(array, name=f"t{i}", op=hvd.Sum, prescale_factor=factor)
    for i, handle in handles.items():
        want = sum(r + i % 7 for r in range(n)) * (2 if kinds[i] == 2 else 1)
        result = hvd.synchronize(handle)
        assert len(result) == sizes[i]
        assert np.all(result == want)


@st.composite
def plans(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(["allreduce", "allgather", "broadcast", "alltoall", "scatter"]))
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
    if draw(st.integers(0, 9)) == 0:
        shape[0] = 70_000
    return {
        "kind": kind,
        "shape": tuple(shape),
        "dtype": draw(st.sampled_from(DTYPES)),
        "op": draw(st.sampled_from(list(REDUCTIONS))),
        "set": draw(st.integers(0, 3)),
        "seed": draw(st.integers(0, 2**16)),
        "root": draw(st.integers(0, 7)),
    }


def _run(plan: dict[str, Any]) -> None:
    members = [hvd.global_process_set, *sets()][plan["set"]]
    if not members.included():
        return
    ranks, place = members.ranks, members.ranks.index(hvd.rank())
    generator = np.random.default_rng(plan["seed"])
    low, high = (0, 3) if plan["dtype"].startswith("u") else (-2, 3)
    rows = generator.integers(0, 5, (len(ranks), len(ranks)))

    def whole(r: int) -> Any:
        shape = plan["shape"]
        if plan["kind"] == "allgather":
            shape = (int(rows[0][r]), *shape[1:])
        if plan["kind"] == "alltoall":
            shape = (int(rows[r].sum()), *shape[1:])
        numbers = np.random.default_rng([plan["seed"], r]).integers(low, high, shape)
        return np.asarray(numbers, plan["dtype"])

    every = [whole(r) for r in range(len(ranks))]
    mine = every[place]
    if plan["kind"] == "allreduce":
        result = hvd.allreduce(mine, op=plan["op"], process_set=members)
        expected = REDUCTIONS[plan["op"]](every, axis=0)
    elif plan["kind"] == "allgather":
        result = hvd.allgather(mine, process_set=members)
        expected = np.concatenate(every)
    elif plan["kind"] == "broadcast":
        root = plan["root"] % len(ranks)
        result = hvd.broadcast(mine, ranks[root], process_set=members)
        expected = every[root]
    elif plan["kind"] == "alltoall":
        result, got = hvd.alltoall(mine, rows[place].tolist(), process_set=members)
        assert list(got) == rows[:, place].tolist()
        cuts = [np.split(a, np.cumsum(rows[r])[:-1]) for r, a in enumerate(every)]
        expected = np.concatenate([cut[place] for cut in cuts])
    else:
        result = hvd.reducescatter(mine, op=plan["op"], process_set=members)
        expected = np.array_split(REDUCTIONS[plan["op"]](every, axis=0), len(ranks))[place]
    assert result.dtype == mine.dtype
    np.testing.assert_array_equal(result, expected.astype(plan["dtype"]), str(plan))


def check_any_operation_type_shape_and_set() -> None:
    """The same cases on all ranks: Hypothesis draws them from a fixed seed and shrinks none."""
    sets()

    @seed(20_260)
    @settings(
        max_examples=150,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans())
    def run(plan: dict[str, Any]) -> None:
        _run(plan)

    run()
