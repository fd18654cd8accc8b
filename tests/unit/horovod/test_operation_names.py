"""Names of operations: which are refused, and in which words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horovod._operation_names import checked_name


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_names_of_all_other_characters_are_taken(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("\0", "holds a zero byte, at which"), ("\ud800", "cannot be written in UTF-8: surrogates")],
)
@pytest.mark.parametrize("length", [1, 100, 101, 10_000_000])
def test_a_name_that_is_refused_is_shown_in_part(fault: str, reason: str, length: int) -> None:
    name = fault + "a" * (length - 1)
    with pytest.raises(ValueError, match=f"^the name .* {re.escape(reason)}") as refusal:
        checked_name(name)
    assert repr(name[:100]) in str(refusal.value)
    assert len(str(refusal.value)) < 250
    assert ("... of " in str(refusal.value)) == (length > 100)
