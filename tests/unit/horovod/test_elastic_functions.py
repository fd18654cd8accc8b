"""What `run_fn` does with functions and states, without a launcher."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from horovod import _launcher_store
from horovod.common import elastic
from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError


def lone() -> ObjectState:
    """Of the only rank."""
    return ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, step=0)


def test_a_callback_may_register_another_one() -> None:
    state = lone()
    called: list[int] = []

    def register_again() -> None:
        called.append(1)
        state.register_reset_callbacks([register_again])

    state.register_reset_callbacks([register_again])
    state.on_reset()
    assert len(called) == 1
    state.on_reset()
    assert len(called) == 3


def test_what_training_goes_back_for_is_said_once_and_then_less_often(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failures = iter([*["ranks differ"] * 12, "rank 1 was lost", "ranks differ"])

    def train(_: ObjectState) -> str:
        for failure in failures:
            raise HorovodInternalError(failure)
        return "done"

    assert run_fn(train, lambda: None)(lone()) == "done"
    assert capsys.readouterr().err.splitlines() == [
        "Training goes on from the last commit, because: ranks differ",
        "Training went back to the last commit 10 times because: ranks differ",
        "Training goes on from the last commit, because: rank 1 was lost",
        "Training goes on from the last commit, because: ranks differ",
    ]


@pytest.fixture
def training_state(monkeypatch: pytest.MonkeyPatch) -> _launcher_store.TrainingState:
    state = _launcher_store.TrainingState()
    monkeypatch.setattr(_launcher_store, "TRAINING_STATE", state)
    return state


@pytest.mark.parametrize("they_have", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_newcomer_does_not_take_over_the_state_of_another_function(
    training_state: _launcher_store.TrainingState, *, they_have: bool, is_new: bool
) -> None:
    said: list[Any] = []

    def others_say(value: Any) -> Any:
        said.append(value)
        return ("script.finetune", they_have) if len(said) == 1 else value

    state = ObjectState(bcast_object=others_say, get_rank=lambda: 1, step=0)
    training_state.synchronised = not is_new
    pretrain = run_fn(lambda _: "trained", lambda: None)
    if not (they_have and is_new):  # ranks may be in different ones from the start on
        assert pretrain(state) == "trained"
        return
    with pytest.raises(RuntimeError, match=r"rank 0 trains in script\.finetune, and this worker"):
        pretrain(state)
    assert len(said) == 1  # no state was taken


def test_a_rank_that_goes_back_does_not_meet_others_in_the_next_function(
    training_state: _launcher_store.TrainingState,
) -> None:
    """They have left the first one before a rank was lost, of which this one has heard within."""
    said: list[Any] = []

    def others_say(value: Any) -> Any:
        said.append(value)
        return ("script.finetune", True) if len(said) > taken else value

    def lose(_: ObjectState) -> None:
        raise HorovodInternalError("rank 2 was lost")

    state = ObjectState(bcast_object=others_say, get_rank=lambda: 1, step=0)
    taken = 2  # the name, and the state
    pretrain = run_fn(lose, lambda: None)
    with pytest.raises(RuntimeError, match=r"rank 0 trains in script\.finetune, and this"):
        pretrain(state)
    assert training_state.synchronised
    assert len(said) == 3  # no other state was taken


def test_ranks_may_be_in_functions_that_they_have_never_shared(
    training_state: _launcher_store.TrainingState,
) -> None:
    training_state.synchronised = True
    assert run_fn(lambda _: "trained", lambda: None)(lone()) == "trained"
    said: list[Any] = []

    def others_say(value: Any) -> Any:
        said.append(value)
        return ("script.of_rank_0", True) if len(said) == 1 else value

    def of_rank_1(_: ObjectState) -> str:
        return "trained"

    state = ObjectState(bcast_object=others_say, get_rank=lambda: 1, step=0)
    assert run_fn(of_rank_1, lambda: None)(state) == "trained"


@pytest.mark.parametrize("how", ["partial", "callable object", "method"])
def test_a_function_has_one_name_in_all_processes(how: str) -> None:
    class Trainer:
        def __call__(self, state: object) -> None: ...
        def train(self, state: object) -> None: ...

    def train(rate: float, state: object) -> None: ...

    made: dict[str, Callable[..., Any]] = {
        "partial": functools.partial(functools.partial(train), 0.1),
        "callable object": Trainer(),
        "method": Trainer().train,
    }
    last = {"partial": "train", "callable object": "Trainer", "method": "Trainer.train"}
    name = elastic.name_of(made[how])
    assert name.startswith(f"{__name__}.test_a_function_has_one_name")
    assert name.endswith(f"<locals>.{last[how]}")


class OfItsOwn:
    """A state with the methods that a loop calls, and no more."""

    def sync(self) -> None: ...


def test_a_state_needs_no_broadcast() -> None:
    state: Any = OfItsOwn()
    assert run_fn(lambda _: "trained", lambda: None)(state) == "trained"
