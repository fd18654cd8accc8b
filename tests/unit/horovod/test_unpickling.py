"""Objects that another Python has pickled."""

import enum
import importlib.util
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pytest

from horovod._pickling import dump
from horovod._unpickling import MARK, load
from variantwheel.interpreters import find_interpreters

OTHER = bytes([MARK[0], MARK[1] + 1])
OWN, OTHERS = (f"{major}.{minor}" for major, minor in (MARK, OTHER))

# Of `__main__` in a process of its own, whose names are not this one's.
PICKLES = """
import sys
from horovod._pickling import dump
from horovod._unpickling import MARK
class Mine:
    def own(self): return [each for each in range(3)]
objects = {"class": Mine, "lambda": lambda: 1, "plain": [1]}
sys.stdout.buffer.write(MARK + dump(objects[sys.argv[1]]))
"""


def from_other(obj: object, mark: bytes = OTHER) -> Any:
    return load(mark + dump(obj), "rank 3", "this rank")


def test_what_this_python_has_pickled_is_loaded_whatever_it_is() -> None:
    made = load(memoryview(MARK + dump(lambda: 7)), "rank 3", "this rank")
    assert made() == 7


class NeedsTwoError(Exception):
    """Is pickled with its text alone, as exceptions are."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def test_what_cannot_be_loaded_is_said_to_be_whose() -> None:
    with pytest.raises(TypeError, match="missing 1 required") as raised:
        from_other(NeedsTwoError(1, 2), MARK)
    if hasattr(raised.value, "add_note"):  # from Python 3.11 on
        notes = getattr(raised.value, "__notes__", [])
        assert notes == ["So ended the attempt to load what rank 3 has pickled."]


def test_values_pass_between_pythons() -> None:
    for obj in ({"a": [1, 2.5, len]}, Path("/tmp"), OWN, ValueError):  # noqa: S108 - no file
        assert from_other(obj) == obj


class _Local:
    @staticmethod
    def make(kind: str) -> object:
        class Mine:
            def own(self) -> int:
                return 1

        class Colour(enum.Enum):
            RED = 1

        return {
            "lambda": lambda: 1,
            "class": Mine,
            "object": [Mine()],
            "enum": Colour.RED,
            "code": _Local.make.__code__,
        }[kind]


@pytest.mark.parametrize("kind", ["lambda", "class", "object", "enum", "code"])
def test_code_of_another_python_is_refused(kind: str) -> None:
    with pytest.raises(pickle.UnpicklingError) as refused:
        from_other(_Local.make(kind))
    said = str(refused.value)
    assert said.startswith(f"rank 3 runs Python {OTHERS}, this rank {OWN}: lambdas, and functions")
    assert said.endswith("define them in a module that both import")


def test_other_failures_name_both_pythons() -> None:
    gone = b"cno_such_module\nPath\n."
    with pytest.raises(pickle.UnpicklingError) as refused:
        load(OTHER + gone, "rank 3", "this rank")
    assert str(refused.value) == (
        f"rank 3 runs Python {OTHERS}, this rank {OWN}, where the object cannot be loaded:"
        " ModuleNotFoundError: No module named 'no_such_module'"
    )
    with pytest.raises(ModuleNotFoundError):
        load(MARK + gone, "rank 3", "this rank")


def test_pickles_of_the_other_pythons_of_this_machine() -> None:
    found = find_interpreters(("3.10", "3.11", "3.12", "3.13"), [], os.environ).interpreters
    programs = [each.program for each in found if each.program and each.version != OWN]
    if not programs:
        pytest.skip("this machine has one CPython alone")
    specs = [importlib.util.find_spec(name) for name in ("horovod", "cloudpickle")]
    paths = [str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin]
    for program in programs:
        pickles = {
            kind: subprocess.run(
                [program, "-c", PICKLES, kind],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                capture_output=True,
                timeout=60,
                check=True,
            ).stdout
            for kind in ("class", "lambda", "plain")
        }
        assert load(pickles["plain"], "rank 3", "this rank") == [1]
        for kind in ("class", "lambda"):
            with pytest.raises(pickle.UnpicklingError, match="define them in a module"):
                load(pickles[kind], "rank 3", "this rank")
