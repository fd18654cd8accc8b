"""Options of a runtime, which the bindings take by name."""

import re
from typing import Any

import pytest

from horovod import _runtime_start
from horovod._loader import _bindings, select_core
from horovod._placement import read_placement


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `hvd.init()` gives in a process of its own."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(_bindings, "Runtime", lambda _, **names: given.update(names))
    _runtime_start.start_runtime(select_core(), read_placement({}), 0, None, "", "")
    monkeypatch.undo()
    return given


def _start(options: dict[str, Any]) -> "_bindings.Runtime":
    return _bindings.Runtime(select_core().file, **options)


def test_a_runtime_starts_with_them(options: dict[str, Any]) -> None:
    runtime = _start(options)
    assert runtime.transport == "self"
    runtime.shutdown()


def test_each_is_needed(options: dict[str, Any]) -> None:
    assert len(options) >= 40
    for name in options:
        rest = {other: value for other, value in options.items() if other != name}
        with pytest.raises(TypeError, match=f"a runtime needs the option '{name}'"):
            _start(rest)


def test_no_other_is_taken(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="a runtime has no option 'colour'"):
        _start({**options, "colour": "red"})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rank", "1", "'rank' must be of type int of 32 bits, not str"),
        ("rank", 2**31, "'rank' must be of type int of 32 bits, not int"),
        ("fusion_bytes", 2**63, "'fusion_bytes' must be of type int of 64 bits, not int"),
        ("start_timeout", None, "'start_timeout' must be of type float, not NoneType"),
        ("secret", 7, "'secret' must be of type str or bytes, not int"),
        ("mpi", "open", "'mpi' must be of type MpiMembership or None, not str"),
    ],
)
def test_one_of_another_type_is_named(
    options: dict[str, Any], name: str, value: object, said: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"the option {said}")):
        _start({**options, name: value})


@pytest.mark.parametrize(
    ("name", "size"), [("local_rank", "local_size"), ("cross_rank", "cross_size")]
)
@pytest.mark.parametrize("rank", [-1, 1])
def test_a_place_beyond_the_others_is_refused(
    options: dict[str, Any], name: str, size: str, rank: int
) -> None:
    with pytest.raises(ValueError, match=f"the option '{name}' is {rank}, but '{size}' is 1"):
        _start({**options, name: rank})
