"""Rows of the benchmarks that take turns: ratios within a round, aims, sizes."""

import argparse

import pytest

import peers
from turns.arguments import parse_sizes, size_name
from turns.cases import Case
from turns.gradient_sets import SHAPES, elements
from turns.rows import Aim, Entry, Measured, Row, duration, table


def measured(ours: list[float], **others: list[float]) -> Measured:
    case = Case("allreduce", 4)
    entries = [Entry(name, "group", case) for name in ("horovod", *others)]
    aim = Aim(["Gloo", "MPI", "absent"], 0.5, "half")
    return Measured(Row("row", entries, [aim]), {"horovod": ours, **others})


def test_the_fastest_by_median_is_what_an_aim_is_held_against() -> None:
    one = measured([1.0, 1.0, 1.0, 9.0, 1.0], Gloo=[9.0] * 5, MPI=[2.0, 2.0, 2.0, 2.0, 4.0])
    (verdict,) = one.verdicts()
    assert (verdict.other, verdict.ratio, verdict.low, verdict.high) == ("MPI", 0.5, 0.5, 0.5)
    assert verdict.met
    assert "0.50 MPI (0.50 .. 0.50) met: half" in table([one])


def test_a_missed_aim_is_said_to_be_missed() -> None:
    assert "1.00 Gloo (1.00 .. 1.00) MISSED: half" in table([measured([1.0], Gloo=[1.0])])


@pytest.mark.parametrize("work", ["alltoall", "reducescatter"])
def test_sizes_that_ranks_cannot_share_are_refused(
    work: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        peers.main(["--no-gloo", "--sizes", "1KiB,4", "--works", f"allreduce,{work}"])
    assert f"error: {work} of 4 B cannot be divided among 2 ranks" in capsys.readouterr().err
    assert not peers.uneven_size(["allreduce", "broadcast"], [4], 2)
    assert not peers.uneven_size(peers.WORKS, [8, 1024], 2)


def test_an_aim_without_its_peers_is_not_judged() -> None:
    assert measured([1.0]).verdicts() == []


def test_sizes_of_resnet50() -> None:
    shapes = SHAPES["resnet50"]
    assert (len(shapes), sum(map(elements, shapes))) == (161, 25_557_032)


def test_words_of_sizes_and_durations() -> None:
    assert parse_sizes("4, 16KiB,1MiB") == [4, 16384, 1 << 20]
    assert [size_name(size) for size in (4, 16384, 1 << 20)] == ["4 B", "16 KiB", "1 MiB"]
    assert (duration(4.14e-6), duration(0.0123)) == ("4.1 µs", "12.30 ms")
    for text in ("", "0", "4 parsecs"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_sizes(text)


def test_every_row_of_the_table_has_aims() -> None:
    names = ["horovod", *peers.KEYS]
    rows = [peers.allreduce_row(size, names) for size in peers.ALLREDUCE_SIZES]
    rows += [peers.half_row("bfloat16", size) for size in peers.HALF_SIZES]
    rows += [peers.other_row(work, 1024, names) for work in peers.OTHER_WORKS]
    assert all(row.aims for row in rows)
    assert all(entry.group in {"horovod", *peers.KEYS.values()} for entry in rows[0].entries)
