"""The driver of elastic jobs: who is started, interrupted and seated, and how the job ends."""

from collections.abc import Sequence

import pytest

from horovod.runner.elastic.driver import ADDED
from horovod.runner.elastic.limits import Failure
from unit.horovod.elastic_game import Game, goes_on


def test_a_round_begins_when_all_have_asked() -> None:
    game = Game(start=3, least=2)
    game.driver.tick()
    assert not game.world.started
    game.hosts(a=2)
    assert not game.world.started  # three are wanted at first
    game.hosts(a=2, b=1)
    assert game.world.started == [("a", [0, 1]), ("b", [2])]
    game.ready(0, 2)
    assert not game.world.places
    game.ready(1)
    assert game.world.ranks() == {0: 0, 1: 1, 2: 2}
    assert {place.round for place in game.world.places.values()} == {1}
    for worker in range(3):
        game.end(worker, 0)
    assert game.driver.verdict == 0


def test_a_failed_worker_takes_its_host_with_it_when_enough_are_left() -> None:
    game = Game(start=4, least=2)
    game.hosts(a=2, b=2)
    game.ready(0, 1, 2, 3)
    game.end(0, 137)
    assert game.world.ended == ["a"]
    game.end(1, 143)  # ended with its host, no failure of its own
    game.ready(2, 3)
    assert game.world.ranks() == {0: 0, 1: 1, 2: 0, 3: 1}
    assert game.world.places[2].round == 2
    assert game.world.said[0] == "Worker 0 (rank 0) on a ended with code 137."
    game.end(2, 0)
    game.end(3, 0)
    assert game.driver.verdict == 0


def test_the_last_host_loses_a_slot_only() -> None:
    game = Game(start=3, least=2, can_grow=False)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    game.end(1, 1)
    game.ready(0, 2)
    assert not game.world.ended
    assert {game.world.ranks()[worker] for worker in (0, 2)} == {0, 1}
    game.end(2, 1)
    assert game.driver.verdict == 1
    assert "at least 2 are needed" in game.world.said[-1]


def test_newcomers_are_started_before_the_others_are_interrupted() -> None:
    game = Game(start=1, least=1, most=3)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=5)
    assert game.world.started[-1] == ("b", [1, 2])  # no more than --max-np in all
    game.ready(1)
    assert not game.world.announced
    game.ready(2)
    assert game.world.announced == [(1, ADDED)]
    game.ready(0)
    assert game.world.ranks() == {0: 0, 1: 1, 2: 2}


def test_a_newcomer_that_fails_does_not_disturb_the_others() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.end(1, 127)
    assert not game.world.announced
    assert game.driver.verdict is None
    game.hosts(a=1, b=1, c=1)
    assert game.world.started[-1] == ("c", [2])  # b is not tried again
    game.end(0, 0)
    assert game.world.places[2].reason
    game.end(2, 0)
    assert game.driver.verdict == 0


def test_a_newcomer_is_not_rank_0_before_those_who_were_there() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    game.hosts(a=2, b=1)
    game.ready(2, 0, 1)
    assert game.world.ranks() == {0: 0, 2: 1, 1: 2}
    game.end(0, 137)  # perhaps before worker 2 has the state
    game.ready(1, 2)
    assert game.world.ranks() == {0: 0, 1: 0, 2: 1}


def test_nobody_trains_on_when_all_who_have_the_state_are_lost() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.end(0, 5)
    assert game.driver.verdict == 5
    assert "No worker that has the state of the training is left" in game.world.said[-1]
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.end(0, 5)  # there is no state yet
    game.ready(1)
    assert game.world.ranks() == {1: 0}


def job_of_two_newcomers_whose_only_other_is_lost() -> Game:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1, c=1)
    game.ready(1, 2)
    game.ready(0, synchronised=True)
    game.end(0, 137)
    return game


@pytest.mark.parametrize("trouble", ["", "rank 0 did not come"])
def test_a_newcomer_that_has_not_got_the_state_does_not_begin_anew(trouble: str) -> None:
    game = job_of_two_newcomers_whose_only_other_is_lost()
    game.ready(1, trouble=trouble)
    assert goes_on(game)  # worker 2 may have it
    game.ready(2, trouble=trouble)
    assert game.driver.verdict == 137
    assert "No worker that has the state of the training is left" in game.world.said[-1]


def test_a_newcomer_that_has_got_the_state_hands_it_on() -> None:
    game = job_of_two_newcomers_whose_only_other_is_lost()
    game.ready(1)
    game.ready(2, synchronised=True)
    assert game.world.ranks() == {0: 0, 2: 0, 1: 1}


def test_those_who_connect_hear_of_a_rank_of_their_round_that_has_ended() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=2)
    game.end(0, 3)  # before there is a round
    game.ready(1)
    assert not game.world.losses
    game = Game(start=2, least=1)
    game.hosts(a=2)
    game.ready(0, 1)
    game.end(1, 137)
    assert game.world.losses == [(1, "rank 1 on a has ended with code 137")]


def test_a_failure_does_not_end_the_only_others_with_the_state() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts(a=2, b=1)
    game.end(0, 5)
    assert not game.world.ended
    game.ready(2, 1)
    assert game.world.ranks() == {0: 0, 1: 0, 2: 1}


def test_a_host_returns_after_its_cooldown() -> None:
    game = Game(start=2, least=1, cooldown=(10.0, 100.0))
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    game.end(0, 9)
    game.ready(1)
    assert game.world.ranks()[1] == 0
    assert game.driver.next_tick() == 10.0
    game.world.time = 10.0
    game.driver.tick()
    assert game.world.started[-1] == ("a", [2])
    game.ready(2)
    assert game.world.announced == [(2, ADDED)]
    game.ready(1)
    assert game.world.ranks() == {0: 0, 1: 0, 2: 1}  # the state stays with rank 0


def test_the_limit_of_resets() -> None:
    game = Game(start=3, least=1, resets=1, can_grow=False)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    game.end(2, 1)
    game.ready(0, 1)
    assert goes_on(game)
    game.end(1, 5)
    game.ready(0)
    assert game.driver.verdict == 5
    assert "formed anew 1 time, which is the limit (--reset-limit)" in game.world.said[-1]


def test_a_loss_while_others_finish_is_reported() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    game.end(0, 0)
    game.end(1, 4)
    game.ready(2)
    assert "finished already" in game.world.places[2].reason
    game.end(2, 0)
    assert game.driver.verdict == 4


@pytest.mark.parametrize("order", [(0, 4, 0), (0, 0, 4)])
def test_a_failure_after_the_first_has_finished_counts(order: Sequence[int]) -> None:
    game = Game(start=3, least=2)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    for worker, code in enumerate(order):
        game.end(worker, code)
    assert game.driver.verdict == 4
    assert game.driver.failure == Failure(str(order.index(4)), 4, trained=True)


def test_a_program_that_never_asks_for_a_place_may_end() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.world.time = 60.0
    game.driver.tick()  # nobody waits for anybody
    game.end(1, 0)
    game.world.time = 120.0
    game.driver.tick()
    assert goes_on(game)
    game.end(0, 0)
    assert game.world.started == [("a", [0]), ("b", [1])]
    assert (game.driver.verdict, game.world.said) == (0, [])
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.end(1, 0)
    game.end(0, 3)
    assert game.driver.verdict == 3


def test_who_waits_shows_that_others_should_have_asked() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.end(1, 0)
    game.ready(0)
    assert game.world.said[0] == (
        "Worker 1 on b ended with code 0 before it had called hvd.init()."
    )
    assert game.world.ranks() == {0: 0}
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.ready(0)
    game.end(1, 0)
    assert "before it had called hvd.init()" in game.world.said[0]


def test_the_first_failure_has_a_name() -> None:
    game = Game(start=3, least=3, can_grow=False)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    game.end(1, 7)
    game.end(0, 1)
    assert game.driver.failure == Failure("1", 7, trained=True)
    game = Game(start=1, least=1, can_grow=False)
    game.hosts(a=1)
    game.end(0, 7)
    assert game.driver.failure == Failure("worker 0", 7, trained=False)


def test_a_newcomer_that_failed_long_ago_is_not_the_first() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts(a=2, b=1)
    game.end(2, 3)
    assert goes_on(game)
    game.end(1, 9)
    game.end(0, 1)
    assert game.driver.failure == Failure("1", 9, trained=True)
    assert game.driver.verdict == 9


def test_the_first_failure_keeps_its_name_when_the_others_end_well() -> None:
    game = Game(start=2, least=2, can_grow=False)
    game.hosts(a=2)
    game.ready(0, 1)
    game.end(1, 3)
    assert game.driver.verdict == 3
    game.end(0, 0)  # as programs may that are told to end
    assert game.driver.failure == Failure("1", 3, trained=True)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_everyone_failing_ends_with_the_first_code(order: Sequence[int]) -> None:
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    for worker, code in zip(order, (6, 7), strict=True):
        game.end(worker, code)
    assert game.driver.verdict == 6


def test_far_more_slots_than_processes_are_a_mistake() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=999_999_999)
    assert game.driver.verdict == 1
    assert "--max-np does not say how many" in game.world.said[-1]
    assert not game.world.started
    game = Game(start=2, least=2)
    game.hosts(a=2)
    game.hosts(a=999_999_999)
    assert game.driver.verdict is None
    assert [len(workers) for _, workers in game.world.started] == [2]
    assert "are taken to be what they were" in game.world.said[-1]
    limited = Game(start=2, least=2, most=2)
    limited.hosts(a=999_999_999)
    assert [len(workers) for _, workers in limited.world.started] == [2]
