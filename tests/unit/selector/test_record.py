"""Records behave as frozen data classes do, which they replace because those cost time."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from variantwheel_selector.record import field, record, replace


@record
class Wheel:
    name: str
    size: int = 1
    notes: list[str] = field(default_factory=list)
    login: str = field(default="none", repr=False)
    stem: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stem", self.name.removesuffix(".whl"))


@dataclasses.dataclass(frozen=True)
class Reference:
    name: str
    size: int = 1
    notes: list[str] = dataclasses.field(default_factory=list)
    login: str = dataclasses.field(default="none", repr=False)
    stem: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stem", self.name.removesuffix(".whl"))


GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("a.whl",), {}),
    (("a.whl", 2), {}),
    (("a.whl", 2, ["x"], "me"), {}),
    ((), {"name": "a.whl"}),
    (("a.whl",), {"login": "me", "size": 3}),
    ((), {}),
    ((1, 2, 3, 4, 5), {}),
    ((), {"size": 2}),
    ((), {"name": "a", "colour": "red"}),
    ((), {"size": 1, "colour": "red"}),
    (("a",), {"name": "b"}),
    (("a", 1, [], "me"), {"login": "you"}),
    (("a",), {"stem": "b"}),
]


@pytest.mark.parametrize(("args", "kwargs"), GIVEN)
def test_arguments_are_taken_and_refused_alike(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        expected = Reference(*args, **kwargs)
    except TypeError:
        with pytest.raises(TypeError, match="Wheel"):
            Wheel(*args, **kwargs)
        return
    found = Wheel(*args, **kwargs)
    assert dict(vars(found)) == dict(vars(expected))
    assert repr(found) == repr(expected).replace("Reference", "Wheel")


def test_they_compare_by_value_and_do_not_change() -> None:
    one, same, other = Wheel("a"), Wheel("a", 1), Wheel("a", 2)
    assert one == same != other
    assert one != object()
    assert one.notes is not same.notes
    with pytest.raises(AttributeError, match="immutable: 'size'"):
        setattr(one, "size", 2)  # noqa: B010 - which type checkers would refuse
    with pytest.raises(AttributeError, match="immutable: 'size'"):
        delattr(one, "size")
    assert replace(one, size=2) == other
    assert replace(one, name="b.whl").stem == "b"
    with pytest.raises(TypeError, match="no field 'colour'"):
        replace(one, colour="red")


def test_they_are_hashed_matched_and_copied() -> None:
    @record
    class Tag:
        python: str
        abi: str = "none"

    assert {Tag("py3"), Tag("py3", "none"), Tag("cp311")} == {Tag("cp311"), Tag("py3")}
    match Tag("py3"):
        case Tag(python, abi):
            assert (python, abi) == ("py3", "none")
    wheel = Wheel("a", notes=["x"])
    assert copy.deepcopy(wheel) == wheel
