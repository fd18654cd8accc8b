"""The fuzz targets, fed by hypothesis: no crash, no hang, nothing written elsewhere."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS, feed

pytestmark = pytest.mark.timeout(120)


@st.composite
def damaged(draw: st.DrawFn, seed: bytes) -> bytes:
    """The seed with some pieces cut out, put in, doubled or replaced."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        words = st.sampled_from(
            [
                b"\x00",
                b"\xff\xfe",
                b"\n",
                b'"',
                b"{" * 200,
                b"[" * 2000,
                b"../",
                b"9" * 400,
                b"-1",
                b"null",
                b"1e999",
                b"\\ud800",
                bytes(data[:60]),
            ]
        )
        data[start:end] = draw(st.one_of(words, st.binary(max_size=20)))
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_seed_is_accepted(name: str) -> None:
    assert feed(name, TARGETS[name][1]) or name in ("configuration", "settings")


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_too_odd(name: str) -> None:
    seed = TARGETS[name][1]

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.one_of(damaged(seed), st.binary(max_size=300), st.text(max_size=200).map(str.encode)))
    def check(data: bytes) -> None:
        feed(name, data)

    check()


def test_a_wheel_without_its_first_byte_is_refused() -> None:
    """`zipfile` reads it, and cannot add to it."""
    assert not feed("wheel_archive", TARGETS["wheel_archive"][1][1:])


@pytest.mark.parametrize("name", TARGETS)
def test_large_inputs_end_soon(name: str) -> None:
    for piece in (b"[", b'{"a":', b"flags : a\n", b"9", b" ", b"a-", b"node 1\n", b"\x00", b"a="):
        feed(name, piece * (200_000 // len(piece)))
