"""Pickling where cloudpickle is not installed."""

import pickle
import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

import pytest

from horovod._pickling import dump


@pytest.fixture(autouse=True)
def _without_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)


def loaded(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - this test has written it


def test_what_has_a_name_is_pickled() -> None:
    for obj in ({"a": [1, len]}, OrderedDict, test_what_has_a_name_is_pickled):
        assert loaded(dump(obj)) == obj
        assert loaded(dump(obj, for_other_program=True)) == obj


@pytest.mark.parametrize("for_other_program", [True, False])
@pytest.mark.parametrize(
    "make", [lambda: lambda: 1, lambda: type("A", (), {"__qualname__": "f.<locals>.A"})]
)
def test_what_takes_cloudpickle_is_named(
    make: Callable[[], object], *, for_other_program: bool
) -> None:
    obj = make()
    with pytest.raises(pickle.PicklingError) as refused:
        dump(["beside", obj], for_other_program=for_other_program)
    assert str(refused.value).startswith(f"pickle cannot take {obj!r}, which is defined inside")
    assert str(refused.value).endswith("pip install cloudpickle")


def test_what_the_script_defines_goes_to_the_same_script_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mine() -> None: ...

    mine.__qualname__ = "mine"
    mine.__module__ = "__main__"
    monkeypatch.setattr(sys.modules["__main__"], "mine", mine, raising=False)
    assert loaded(dump(mine)) is mine
    for script in ("__main__", "__mp_main__"):  # this one, and as multiprocessing calls it
        mine.__module__ = script
        with pytest.raises(
            pickle.PicklingError, match="which this script defines, to ranks that run"
        ):
            dump(mine, for_other_program=True)


def test_a_signal_may_come_while_cloudpickle_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cloudpickle", "cloudpickle.cloudpickle"):
        monkeypatch.setitem(sys.modules, name, None)  # to be undone
        del sys.modules[name]
    handled: list[bytes] = []

    class DuringImport(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "cloudpickle.cloudpickle":
                signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(sys, "meta_path", [DuringImport(), *sys.meta_path])
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(dump({"from": "handler"})))
    try:
        assert loaded(dump(lambda: 7))() == 7
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert list(map(loaded, handled)) == [{"from": "handler"}]


def test_what_nothing_can_pickle_is_not_blamed_on_pickle() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        dump(threading.Lock())
