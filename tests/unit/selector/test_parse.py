"""The pure parsers: written texts come back, and no text makes them fail."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from variantwheel_selector.parse.aarch64_hwcap import aarch64_features
from variantwheel_selector.parse.auxv import (
    decode_auxv,
    parse_auxv,
    x86_disagreement,
)
from variantwheel_selector.parse.cpuinfo import cpu_flags, first_block
from variantwheel_selector.parse.glibc_cpuid import (
    CpuidLeaf,
    format_leaf,
    leaf_flags,
    parse_leaves,
)

FLAG = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)
REGISTERS = st.tuples(*[st.integers(0, 2**32 - 1)] * 4)


@given(st.frozensets(FLAG, min_size=1))
def test_flags_come_back(flags: frozenset[str]) -> None:
    line = " ".join(sorted(flags))
    text = f"processor\t: 0\nmodel name\t: flags : x\nflags\t\t: {line}\n\nflags : other\n"
    assert cpu_flags(text) == flags
    assert cpu_flags(first_block(text)) == flags


def test_no_flags() -> None:
    assert cpu_flags("") is None
    assert cpu_flags("flags\t\t:\n") is None
    assert cpu_flags("processor : 0\nhart : 0\nisa : rv64imafdc\n") is None
    # The second processor does not count: the first one's block has ended.
    assert cpu_flags("processor : 0\n\nflags : sse2\n") is None


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    cpu_flags(text)
    parse_auxv(text)
    leaf_flags(parse_leaves(text))


@given(st.binary(), st.sampled_from([32, 64]))
def test_no_auxiliary_vector_is_too_odd(data: bytes, pointer_bits: int) -> None:
    parse_auxv(decode_auxv(data, pointer_bits))


@pytest.mark.parametrize(("pair", "pointer_bits"), [("=QQ", 64), ("=II", 32)])
def test_auxiliary_vector_comes_back(pair: str, pointer_bits: int) -> None:
    entries = [(6, 4096), (16, 0x178BFBFF), (26, 2), (33, 12345), (0, 0)]
    data = b"".join(struct.pack(pair, *entry) for entry in entries)
    assert decode_auxv(data, pointer_bits) == "AT_HWCAP 0x178bfbff\nAT_HWCAP2 0x2\n"
    assert parse_auxv(decode_auxv(data, pointer_bits)) == {"AT_HWCAP": 0x178BFBFF, "AT_HWCAP2": 2}


def test_disagreement_names_the_flags_of_either_side() -> None:
    assert x86_disagreement(frozenset(["fpu", "vme", "avx2"]), 0b11) == ()
    assert x86_disagreement(frozenset(["fpu", "ht"]), 0b11) == ("ht", "vme")


def test_aarch64_features() -> None:
    entries = {"AT_HWCAP": 0b11 | 1 << 22, "AT_HWCAP2": 1 << 1 | 1 << 14 | 1 << 43, "AT_HWCAP3": 1}
    assert aarch64_features(entries) == {"fp", "asimd", "sve", "sve2", "bf16", "mops"}


@given(st.dictionaries(st.integers(0, 9), st.builds(CpuidLeaf, REGISTERS, REGISTERS)))
def test_leaves_come_back(leaves: dict[int, CpuidLeaf]) -> None:
    text = "".join(format_leaf(index, leaf) for index, leaf in leaves.items())
    assert parse_leaves(text) == leaves
    assert (leaf_flags(leaves) is None) == (not leaves.keys() >= {0, 1, 2})


def test_flags_that_the_system_did_not_enable_do_not_count() -> None:
    everything = (0xFFFFFFFF,) * 4
    nothing = (0, 0, 0, 0)
    flags = leaf_flags({index: CpuidLeaf(everything, nothing) for index in range(3)})
    assert flags is not None
    assert {"cx16", "lahf_lm", "movbe", "abm", "bmi2"} <= flags
    assert not flags & {"avx", "avx2", "fma", "f16c", "avx512f", "avx512vl"}
