"""The driver of elastic jobs: what becomes of those whose hosts are removed or replaced."""

from collections.abc import Sequence

import pytest

from horovod.runner.elastic.driver import ADDED, REMOVED
from unit.horovod.elastic_game import Game, goes_on


def job_of_two_whose_b_is_removed() -> Game:
    """Worker 0 trains on a, worker 1 on b, and neither knows of it yet."""
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    game.hosts(a=1)
    return game


def test_workers_of_a_host_that_is_removed_leave_and_rank_0_stays_with_the_state() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=1, b=2)
    game.ready(0, 1, 2)
    game.hosts(b=2)
    assert game.world.announced == [(1, REMOVED)]
    game.ready(0)
    assert game.world.places[0].environment == {}
    assert "a has no slot for it any more" in game.world.places[0].reason
    game.ready(2, 1)
    assert game.world.ranks() == {1: 0, 2: 1}
    assert game.world.gathered == [["a", "b"], ["b"]]
    game.end(0, 0)
    assert game.driver.verdict is None


def test_nobody_is_called_for_those_who_are_about_to_leave() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=1, b=2)
    game.ready(0, 1, 2)
    game.hosts(b=2)
    game.ready(1, 2)
    assert game.world.ranks() == {0: 0, 1: 0, 2: 1}
    game.driver.tick()
    assert game.world.announced == [(1, REMOVED)]
    game.ready(0)
    assert "a has no slot for it any more" in game.world.places[0].reason


def test_a_worker_that_a_round_begins_without_is_ended_unless_it_comes() -> None:
    game = job_of_two_whose_b_is_removed()
    game.world.time = 5.0
    game.ready(0)
    assert game.world.ranks()[0] == 0
    assert game.driver.next_tick() == 15.0
    game.world.time = 15.0
    game.driver.tick()
    assert (game.world.ended_workers, game.world.ended) == ([1], [])
    assert "Worker 1 on b, without which the job goes on" in game.world.said[-1]
    assert game.driver.next_tick() is None
    game.end(0, 0)
    game.end(1, 255)  # the connection was given up
    assert (game.driver.verdict, game.driver.failure) == (0, None)


def test_who_comes_to_be_told_to_leave_may_take_its_time_then() -> None:
    game = job_of_two_whose_b_is_removed()
    game.ready(0, 1)
    assert "b has no slot for it any more" in game.world.places[1].reason
    game.world.time = 1e6
    game.driver.tick()
    assert not game.world.ended_workers
    game.ready(1)  # its program takes no for no answer
    assert game.world.attempts[1] == 2
    assert "b has no slot for it any more" in game.world.places[1].reason


def test_the_job_ends_although_those_who_were_dismissed_hang() -> None:
    game = job_of_two_whose_b_is_removed()
    game.ready(1, 0)
    assert "b has no slot for it any more" in game.world.places[1].reason
    game.end(0, 0)
    assert game.driver.next_tick() == 10.0
    game.world.time = 10.0
    game.driver.tick()
    assert game.world.ended_workers == [1]
    game.end(1, 137)
    assert (game.driver.verdict, game.driver.failure) == (0, None)


def test_a_host_that_returns_gets_new_workers_while_its_old_ones_hang() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=2, b=1)
    game.ready(0, 1, 2)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts(a=2, b=1)
    assert game.world.started[-1] == ("b", [3])
    assert game.world.announced == [(1, REMOVED)]
    game.ready(3)
    assert game.world.announced[1:] == [(2, ADDED)]
    game.ready(0, 1)
    assert {worker: game.world.ranks()[worker] for worker in (0, 1, 3)} == {0: 0, 1: 1, 3: 2}
    game.ready(2)  # with the state of long ago
    assert "b has no slot for it any more" in game.world.places[2].reason


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_host_that_is_replaced_stays_until_the_new_one_has_the_state(
    order: Sequence[int],
) -> None:
    game = Game(start=1, least=1, most=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(b=1)
    assert game.world.started[-1] == ("b", [1])
    assert not game.world.announced
    game.ready(1)
    assert game.world.announced == [(1, ADDED)]
    game.ready(0)
    assert game.world.ranks() == {0: 0, 1: 1}
    assert game.world.announced[1:] == [(2, REMOVED)]
    game.ready(order[0])
    assert game.world.places[0].environment  # the other might have to have the state sent again
    assert game.world.places[1].round == 2
    game.ready(order[1])
    assert "a has no slot for it any more" in game.world.places[0].reason
    assert game.world.places[1].round == 3
    assert game.world.ranks()[1] == 0
    game.end(0, 0)
    game.end(1, 0)
    assert game.driver.verdict == 0


def test_nobody_waits_for_a_removed_host_once_others_surely_have_the_state() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.ready(1, 0)
    game.hosts(a=1, b=1, c=1)
    game.ready(2, 1, 0)
    game.hosts(b=1, c=1)  # a may be dead
    game.ready(1, 2)
    assert {game.world.places[worker].round for worker in (1, 2)} == {4}


def test_all_of_a_replaced_host_train_until_the_new_one_is_ready() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts(b=2)
    assert not game.world.announced
    game.ready(2, 3)
    assert game.world.announced == [(1, ADDED | REMOVED)]
    game.ready(1)
    assert "a has no slot for it any more" in game.world.places[1].reason
    game.ready(0)
    assert {worker: game.world.ranks()[worker] for worker in (0, 2, 3)} == {0: 0, 2: 1, 3: 2}


def test_a_replaced_host_stays_while_the_new_ones_fail() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(b=1)
    game.ready(1, 0)
    game.ready(0)
    game.end(1, 9)
    assert goes_on(game)
    game.hosts(c=1)
    game.ready(2)
    assert game.world.ranks()[0] == 0
    assert game.world.ranks()[2] == 1


def test_newcomers_of_a_host_that_has_gone_hold_nobody_up() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.hosts(a=1, c=1)
    assert game.world.ended_workers == [1]
    game.ready(2)
    assert game.world.announced == [(1, ADDED)]
    game.end(1, 143)
    assert not game.driver.failure
