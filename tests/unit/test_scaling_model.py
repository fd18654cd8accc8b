"""The model of many ranks: what it must agree with at its edges, and in the library's sources."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scaling_model as model
from scaling_model import MIB, Constants, Link

NATIVE = Path(__file__).parents[2] / "src" / "native"
CONSTANTS = Constants(Link(1e-6, 1e-10), Link(3e-5, 4e-10), 1e-4, 3e-6, 0.01, 1e-3)


def job(ranks: int, transport: str, message: float, byte: float, **more: Any) -> dict[str, Any]:
    small = 1e-4 + message
    rows = [{"bytes": 4, "async": small}, {"bytes": 16 * MIB, "async": small + byte * 16 * MIB}]
    return {
        "ranks": ranks,
        "transport": transport,
        "message": message,
        "start": 0.01 + 0.001 * (ranks - 2),
        "control_cpu": 2e-5 + 3e-6 * (ranks - 2),
        "rows": rows,
        **more,
    }


def measured(**changes: Any) -> dict[str, Any]:
    over_tcp = [job(ranks, "tcp", 2e-5, 5e-10) for ranks in (2, 8)]
    far = job(2, "tcp", 3e-5, 4e-10, hosts=2)
    return {"ranks": [job(2, "shm", 1e-6, 1e-10), *over_tcp], "hosts": [far], **changes}


def test_the_constants_are_found_again() -> None:
    found = model.fit(measured())
    for ours, wanted in zip(
        (found.near.alpha, found.near.beta, found.far.alpha, found.far.beta, found.agreement_cpu,
         found.agreement, found.start, found.start_of_one),
        (1e-6, 1e-10, 3e-5, 4e-10, 3e-6, 1e-4, 0.01, 0.001),
        strict=True,
    ):  # fmt: skip
        assert ours == pytest.approx(wanted, rel=1e-3)
    with pytest.raises(ValueError, match="has not measured"):
        model.fit(measured(hosts=[]))


def test_small_vectors_take_a_logarithm_of_steps() -> None:
    far = CONSTANTS.far
    assert [model.pair_steps(ranks) for ranks in (1, 2, 3, 4, 7, 8, 1024)] == [0, 1, 3, 2, 4, 3, 10]
    assert model.allreduce(2, 4, far) == pytest.approx(far.alpha, rel=1e-3)
    assert model.allreduce(1024, 4, far) == pytest.approx(10 * far.alpha, rel=1e-3)
    assert model.flat_or_ring(1024, 4, far) == pytest.approx(1023 * far.alpha, rel=1e-3)


def test_few_are_heard_by_each_in_large_jobs() -> None:
    # As in control_tree_test.cc.
    assert model.control_levels(32, 8) == [31]
    assert model.control_levels(40, 8) == [11, 7]
    assert model.control_levels(256, 8) == [13, 12, 7]
    assert model.control_levels(1024, 8) == [18, 18, 7]
    assert model.control_levels(1024, 1) == [10, 10, 10]
    assert model.control_levels(64, 64) == [8, 7]
    of_two = model.agreement([1], CONSTANTS)
    assert of_two == CONSTANTS.agreement
    assert model.agreement([3, 2], CONSTANTS) == pytest.approx(
        2 * of_two + 3 * CONSTANTS.agreement_cpu
    )


def test_vectors_of_which_a_ranks_part_is_small_are_halved() -> None:
    far = Link(20e-6, 0)
    assert model.allreduce(64, 10 * MIB, far) == pytest.approx(12 * far.alpha)
    assert model.allreduce(63, 10 * MIB, far) == pytest.approx(124 * far.alpha)
    assert model.allreduce(4, 10 * MIB, far) == pytest.approx(6 * far.alpha)
    assert model.allreduce(64, 17 * MIB, far) == pytest.approx(126 * far.alpha)


@given(st.integers(2, 300), st.integers(1, 64), st.integers(MIB, 1 << 30))
def test_large_vectors_approach_what_the_link_gives(hosts: int, per_host: int, nbytes: int) -> None:
    # Without a cost for each message, twice the vector crosses a host's link, less a host's part.
    free = replace(CONSTANTS, near=Link(0, 0), far=Link(0, 1e-10))
    if nbytes / per_host <= model.PAIRS_BYTES:
        return
    seconds = model.on_hosts(hosts, per_host, nbytes, free)
    assert seconds == pytest.approx(2 * (hosts - 1) / hosts * nbytes * 1e-10)


@given(st.integers(1, 9), st.integers(1, 8), st.integers(4, 1 << 28))
def test_more_hosts_or_bytes_never_cost_less_to_agree_and_connect(
    power: int, per_host: int, nbytes: int
) -> None:
    ranks = per_host << power
    heard = model.control_levels(2 * ranks, per_host)
    assert sum(heard) < 2 * ranks
    assert model.start(2 * ranks, CONSTANTS) > model.start(ranks, CONSTANTS)
    assert model.descriptors_of_rank_0(ranks, per_host) > model.connections(ranks, per_host)
    more = model.on_hosts(
        1 << power, per_host, 2 * nbytes + model.PAIRS_BYTES * per_host, CONSTANTS
    )
    assert more > model.on_hosts(1 << power, per_host, nbytes, CONSTANTS) * 0.5


def test_shared_memory_stays_bounded_on_usual_hosts() -> None:
    assert model.segment_bytes(2) == 8 * MIB
    assert model.segment_bytes(8) == 30 * MIB
    assert model.segment_bytes(64) == 142 * MIB


def test_ranks_of_a_host_wait_for_others_twice_however_many_they_are() -> None:
    free = Link(1e-6, 0)
    assert [model.on_a_host(ranks, 4, free) for ranks in (1, 2, 8, 64)] == [0, 1e-6, 1e-6, 1e-6]
    assert [model.on_a_host(ranks, MIB, free) for ranks in (2, 8, 64)] == [2e-6] * 3
    bytes_only = Link(0, 1e-9)
    assert model.on_a_host(8, MIB, bytes_only) == pytest.approx(2 * 7 / 8 * MIB * 1e-9)


def test_the_report_has_a_column_for_each_number_of_ranks() -> None:
    constants, _, head, _, *lines = model.report(CONSTANTS)
    assert "30 µs and 2.5 GB/s" in constants
    assert all(line.count("|") == head.count("|") == 6 for line in lines)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("ops/allreduce.cc", "kPairsBytes", model.PAIRS_BYTES),
        ("ops/allreduce.cc", "kFlatBytes", model.FLAT_BYTES),
        ("ops/allreduce.cc", "kFlatTotal", model.FLAT_TOTAL),
        ("ops/allreduce.cc", "kHalvedPart", model.HALVED_PART),
        ("ops/ahead.cc", "kWhole", model.WHOLE_BYTES),
        ("ops/ahead.cc", "kAllWhole", model.WHOLE_TOTAL),
        ("ops/hierarchical.cc", "kOneLane", model.ONE_LANE),
        ("transport/shm/segment.cc", "kLargestRing", model.LARGEST_RING),
        ("transport/shm/segment.cc", "kSmallestRing", model.SMALLEST_RING),
        ("transport/shm/segment.cc", "kLargestOfMore", model.LARGEST_OF_MORE),
        ("transport/shm/segment.cc", "kAllRings", model.ALL_RINGS),
        ("transport/shm/segment.cc", "kShortRing", model.SHORT_RING),
        ("transport/shm/segment.cc", "kAllShortRings", model.ALL_SHORT_RINGS),
        ("transport/shm/segment.cc", "kAllPosts", model.ALL_POSTS),
        ("runtime/control_tree.h", "kMostDirectRanks", model.MOST_DIRECT_RANKS),
        ("runtime/control_tree.h", "kUsualFanout", model.USUAL_FANOUT),
    ],
)
def test_its_thresholds_are_the_librarys(file: str, name: str, value: int) -> None:
    text = (NATIVE / file).read_text()
    found = re.search(rf"{name} = (?:size_t{{(\d+)}} << )?(\d+);", text)
    assert found is not None, f"{file} has no {name}"
    assert (int(found[1]) << int(found[2]) if found[1] else int(found[2])) == value
