"""The driver of elastic jobs: for whom it waits, and for how long."""

import pytest

from horovod.runner.elastic.driver import ADDED, REMOVED
from unit.horovod.elastic_game import Game, goes_on


def test_ranks_that_can_never_connect_are_no_job() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    for time in (40.0, 80.0):
        game.world.time = time
        game.ready(1, trouble="cannot connect to rank 0.")
        game.ready(0, trouble="rank 1 did not connect")
        assert goes_on(game)
    game.world.time = 100.0  # 60 seconds after it had been formed anew for the first time
    game.ready(1, trouble="cannot connect to rank 0.")
    assert goes_on(game)
    game.ready(0, trouble="rank 1 did not connect")
    assert game.driver.verdict == 1
    assert game.world.said[-1] == (
        "The ranks could not connect with each other 3 times in a row, for 60 seconds"
        " (--elastic-timeout). Rank 0 on a: rank 1 did not connect. Rank 1 on b: cannot connect to"
        " rank 0."
    )


def test_ranks_that_connect_in_the_end_have_all_the_time_again() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    for start in (0.0, 1000.0, 2000.0):
        game.world.time = start + 50.0
        game.ready(0)  # has heard of it later
        game.ready(1, trouble="rank 0 has gone")
        game.world.time = start + 100.0
        game.ready(0, 1, trouble="out of luck")
        assert goes_on(game)
        game.world.time = start + 900.0
        game.ready(0, 1)  # after they have trained together
    assert goes_on(game)
    assert {place.round for place in game.world.places.values()} == {10}


@pytest.mark.parametrize("least", [1, 2])
def test_waiting_ends_after_the_time_out(least: int) -> None:
    game = Game(start=2, least=least)
    game.driver.tick()
    assert game.driver.next_tick() == 60.0
    game.hosts(a=1)
    game.hosts(a=1)
    (line,) = game.world.said
    assert line.startswith("There is 1 slot, at least 2 are needed; waiting for more, for up to 60")
    game.world.time = 60.0
    game.driver.tick()
    assert game.driver.verdict == 1
    assert "not enough slots for 2 ranks within 60 seconds" in game.world.said[-1]


def test_after_a_loss_the_least_ranks_are_waited_for() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts()
    game.end(0, 1)
    game.ready(1)
    game.world.time = 60.0
    game.driver.tick()
    assert "not enough slots for 1 rank within 60 seconds" in game.world.said[-1]


def test_who_waits_for_slots_after_a_loss_says_so() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=2)
    game.ready(0, 1)
    game.end(0, 137)
    waits = "There is 1 slot left, at least 2 are needed; waiting for more, for up to 60 seconds"
    assert [line for line in game.world.said if waits in line] == [game.world.said[-1]]
    game.hosts(a=2, b=1)
    game.ready(1, 2)
    assert goes_on(game)


def test_those_who_do_not_come_back_are_ended() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=1, b=1, c=1)
    game.ready(0, 1, 2)
    assert game.driver.next_tick() is None  # nobody has to come while all train
    game.end(2, 137)
    game.ready(0)
    game.world.time = 60.0
    game.driver.tick()
    assert game.world.ended_workers == [1]
    assert game.world.ended == ["c", "b"]  # as after a failure of its own
    assert game.world.ranks()[0] == 0
    assert game.world.places[0].round == 2
    game.end(1, 143)
    assert goes_on(game)


def job_that_waits_while_a_newcomer_starts(at: float, *, least: int) -> Game:
    """Worker 1 does not come, for which worker 0 waits; worker 2 is started at that time."""
    game = Game(start=2, least=least)
    game.hosts(a=1, b=1)
    game.ready(0)
    game.world.time = at
    game.hosts(a=1, b=1, c=1)
    return game


def test_newcomers_have_their_own_time_when_others_do_not_come() -> None:
    game = job_that_waits_while_a_newcomer_starts(55.0, least=1)
    game.world.time = 60.0
    game.driver.tick()
    assert game.world.ended_workers == [1]
    game.end(1, 143)
    game.ready(2)
    assert game.world.ranks() == {0: 0, 2: 1}


def test_newcomers_have_their_own_time_when_others_do_not_come_back() -> None:
    game = Game(start=2, least=2)
    game.hosts(a=1, b=1, c=1)
    game.ready(0, 1, 2)
    game.end(2, 137)
    game.ready(0)
    game.world.time = 55.0
    game.hosts(a=1, b=1, c=1, d=1)
    game.world.time = 60.0
    game.driver.tick()
    assert game.world.ended_workers == [1]
    game.ready(3)
    assert {worker: game.world.places[worker].round for worker in (0, 3)} == {0: 2, 3: 2}


def test_newcomers_that_fail_leave_time_for_other_slots() -> None:
    game = job_that_waits_while_a_newcomer_starts(50.0, least=2)
    game.world.time = 60.0
    game.driver.tick()
    assert game.driver.next_tick() == 120.0
    game.world.time = 109.0
    game.end(2, 1)
    game.world.time = 116.0
    game.driver.tick()
    assert game.driver.verdict is None
    game.hosts(a=1, d=1)
    game.ready(3)
    assert game.world.ranks() == {0: 0, 3: 1}


def test_newcomers_that_never_come_are_given_up_at_the_next_end() -> None:
    game = job_that_waits_while_a_newcomer_starts(55.0, least=2)
    for _ in range(3):
        at = game.driver.next_tick()
        assert at is not None
        game.world.time = at
        game.driver.tick()
    assert game.world.ended_workers == [1, 2]
    assert game.driver.verdict == 1
    assert game.world.said[-1].startswith("There were not enough slots for 2 ranks")


def test_the_others_of_its_host_outlive_who_does_not_come_back() -> None:
    game = Game(start=3, least=1, can_grow=False)
    game.hosts(a=3)
    game.ready(0, 1, 2)
    game.ready(0, 1)
    game.world.time = 60.0
    game.driver.tick()
    assert (game.world.ended_workers, game.world.ended) == ([2], [])
    assert game.world.said == [
        "Worker 2 on a has not come for 60 seconds (--elastic-timeout); ending it."
    ]
    assert {worker: game.world.places[worker].round for worker in (0, 1)} == {0: 2, 1: 2}
    game.end(2, 137)
    game.end(0, 0)
    game.end(1, 0)
    assert game.driver.verdict == 0


def test_newcomers_that_hang_are_ended_when_the_others_have_finished() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=4)
    game.ready(2)
    game.end(0, 0)
    game.end(2, 0)  # told that it has no place
    assert game.driver.next_tick() == 10.0
    game.world.time = 10.0
    game.driver.tick()
    assert game.world.ended_workers == [1, 3]
    assert game.driver.next_tick() is None
    game.end(1, 143)
    game.end(3, 143)
    assert game.driver.verdict == 0


def test_newcomers_that_hang_hold_nobody_up_for_longer_than_the_time_out() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.world.time = 5.0
    game.hosts(a=1, b=1, c=1)
    game.ready(2)
    assert not game.world.announced
    assert game.driver.next_tick() == 60.0
    game.world.time = 60.0
    game.driver.tick()
    assert game.world.ended_workers == [1]
    assert game.world.announced == [(1, ADDED)]
    game.ready(0)
    assert (game.world.ranks()[0], game.world.ranks()[2]) == (0, 1)
    assert game.world.started == [("a", [0]), ("b", [1]), ("c", [2])]  # b is not tried again


def test_a_newcomer_that_hangs_does_not_end_those_who_train_on_its_host() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    game.hosts(a=2, b=1)
    game.world.time = 60.0
    game.driver.tick()
    assert (game.world.ended_workers, game.world.ended) == ([2], [])
    assert len(game.world.started) == 3  # nor is its slot tried again
    assert not game.world.announced


def test_newcomers_may_wait_long_for_those_who_train() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.ready(1)
    game.world.time = 1e6
    game.driver.tick()
    assert not game.world.ended
    assert game.world.ranks() == {0: 0}


def test_those_who_train_are_called_until_they_come() -> None:
    game = Game(start=1, least=1)
    game.hosts(a=1)
    game.ready(0)
    game.hosts(a=1, b=1)
    game.ready(1)
    times = []
    while len(game.world.announced) < 8:
        at = game.driver.next_tick()
        assert at is not None
        times.append(at - game.world.time)
        game.world.time = at
        game.driver.tick()
    assert game.world.announced == [(1, ADDED)] * 8
    assert times == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    game.ready(0)
    assert game.driver.next_tick() is None
    assert len(game.world.announced) == 8


def pass_time(game: Game, until: float) -> None:
    """Wakes the driver whenever it wants to be woken."""
    for _ in range(100):
        at = game.driver.next_tick()
        if at is None or at > until:
            break
        game.world.time = at
        game.driver.tick()
    else:
        pytest.fail("the driver never sleeps")
    game.world.time = until


def rounds(game: Game) -> dict[int, int]:
    return {number: place.round for number, place in game.world.places.items()}


def job_that_changes_while_a_newcomer_starts(
    *, least: int = 1, most: int | None = None, resets: int | None = None
) -> Game:
    """Host b has lost the slot of worker 2, which has left, and c has worker 3, still starting."""
    game = Game(start=3, least=least, most=most, resets=resets)
    game.hosts(a=1, b=2)
    game.ready(0, 1, 2)
    game.hosts(a=1, b=1, c=1)
    assert game.world.announced == [(1, REMOVED | ADDED)]
    game.ready(0, 2)
    assert "b has no slot for it any more" in game.world.places[2].reason
    game.end(2, 0)
    return game


def test_a_removed_slot_does_not_have_the_others_wait_long_for_a_newcomer() -> None:
    game = job_that_changes_while_a_newcomer_starts()
    pass_time(game, 20.0)
    assert rounds(game)[0] == 1  # as worker 1, which trains on, may have the newcomer in time
    game.ready(1)
    assert game.driver.next_tick() == 25.0
    pass_time(game, 24.9)
    assert rounds(game)[0] == 1
    pass_time(game, 25.0)
    assert (rounds(game)[0], rounds(game)[1]) == (2, 2)
    assert {number: game.world.ranks()[number] for number in (0, 1)} == {0: 0, 1: 1}
    assert game.world.gathered[-1] == ["a", "b"]
    called = len(game.world.announced)
    pass_time(game, 59.0)
    assert len(game.world.announced) == called  # they train while it starts
    game.ready(3)
    assert game.world.announced[called:] == [(2, ADDED)]
    game.ready(1, 0)
    assert {number: game.world.ranks()[number] for number in (0, 1, 3)} == {0: 0, 1: 1, 3: 2}
    assert {rounds(game)[number] for number in (0, 1, 3)} == {3}
    assert game.world.said == []
    assert len(game.world.started) == 3


def test_a_newcomer_that_is_soon_ready_costs_one_round_only() -> None:
    game = job_that_changes_while_a_newcomer_starts()
    game.ready(1)
    pass_time(game, 4.9)
    game.ready(3)
    assert {number: rounds(game)[number] for number in (0, 1, 3)} == {0: 2, 1: 2, 3: 2}
    assert game.driver.next_tick() is None


def test_a_failure_does_not_have_the_others_wait_long_for_newcomers() -> None:
    game = Game(start=3, least=1)
    game.hosts(a=1, b=2)
    game.ready(0, 1, 2)
    game.hosts(a=1, b=2, c=2)
    game.ready(3)
    game.end(2, 137)
    game.end(1, 143)  # with its host
    game.ready(0)
    pass_time(game, 5.0)
    # Whoever is ready comes along, after those who have the state.
    assert {number: game.world.ranks()[number] for number in (0, 3)} == {0: 0, 3: 1}
    assert rounds(game)[0] == rounds(game)[3] == 2
    game.ready(4)
    game.ready(3, 0)
    assert {number: game.world.ranks()[number] for number in (0, 3, 4)} == {0: 0, 3: 1, 4: 2}
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.ready(0, 1)
    game.hosts(a=1, b=1, aa=1)
    game.end(0, 137)
    game.ready(1)
    pass_time(game, 5.0)
    assert (game.world.ranks()[1], rounds(game)[1]) == (0, 2)


def test_a_first_round_waits_for_all() -> None:
    game = Game(start=2, least=1)
    game.hosts(a=1, b=1)
    game.ready(0)
    pass_time(game, 59.0)
    assert not game.world.places
    game.ready(1)
    assert game.world.ranks() == {0: 0, 1: 1}


def test_who_is_waited_for_when_too_few_could_go_on_is_said() -> None:
    game = job_that_changes_while_a_newcomer_starts(least=3)
    game.ready(1)
    pass_time(game, 4.9)
    assert game.world.said == []
    pass_time(game, 30.0)
    assert rounds(game)[0] == 1
    (line,) = game.world.said
    assert line == (
        "Training stands still until worker 3 on c is ready, for up to 60 seconds"
        " (--elastic-timeout): there are 2 ranks, at least 3 are needed."
    )
    game.driver.tick()
    assert game.world.said == [line]
    game.hosts(a=1, b=1, c=1, d=4)
    assert game.world.said[1].startswith(
        "Training stands still until worker 3 on c, worker 4 on d, worker 5 on d, 2 more are ready,"
    )
    game.ready(5)  # now they are enough, and have waited long
    assert {number: game.world.ranks()[number] for number in (0, 1, 5)} == {0: 0, 1: 1, 5: 2}
    assert len(game.world.said) == 2


def test_a_newcomer_that_never_comes_costs_the_others_nothing_but_the_grace() -> None:
    game = job_that_changes_while_a_newcomer_starts()
    game.ready(1)
    pass_time(game, 5.0)
    assert (rounds(game)[0], rounds(game)[1]) == (2, 2)
    pass_time(game, 60.0)
    assert game.world.ended_workers == [3]
    assert game.world.said == [
        "Worker 3 on c has not come for 60 seconds (--elastic-timeout); ending it.",
        "No more workers are started on c for now.",
    ]
    game.end(3, 143)
    assert (rounds(game)[0], rounds(game)[1]) == (2, 2)
    assert game.driver.next_tick() is None
    game.end(0, 0)
    game.end(1, 0)
    assert game.driver.verdict == 0


def test_a_guest_trains_on_while_those_that_it_waits_for_start() -> None:
    game = Game(start=2, least=1, most=2)
    game.hosts(a=2)
    game.ready(0, 1)
    game.hosts(b=2)
    game.end(1, 137)
    game.ready(0)
    pass_time(game, 5.0)
    assert (game.world.ranks()[0], rounds(game)[0]) == (0, 2)
    game.ready(2, 3)
    assert game.world.announced == [(2, ADDED)]
    game.ready(0)
    assert {number: game.world.ranks()[number] for number in (0, 2, 3)} == {0: 0, 2: 1, 3: 2}
    assert game.world.announced[1:] == [(3, REMOVED)]


def test_newcomers_that_join_late_are_no_reset_of_their_own() -> None:
    game = job_that_changes_while_a_newcomer_starts(resets=1)
    game.ready(1)
    pass_time(game, 5.0)
    game.ready(3, 0, 1)
    assert rounds(game)[3] == 3
    assert goes_on(game)
    game.end(3, 9)
    game.ready(0, 1)
    assert game.driver.verdict == 9
    assert "formed anew 1 time, which is the limit (--reset-limit)" in game.world.said[-1]


@pytest.mark.parametrize("what", ["failure", "lost connection", "other newcomer"])
def test_another_change_is_a_reset_also_when_late_newcomers_join_by_it(what: str) -> None:
    game = job_that_changes_while_a_newcomer_starts(resets=1)
    game.ready(1)
    pass_time(game, 5.0)
    if what == "failure":
        game.ready(3)
        game.end(1, 9)
        game.ready(0)
    elif what == "lost connection":
        game.ready(0, 1)
        pass_time(game, 10.0)
    else:
        game.hosts(a=1, b=1, c=1, d=1)
        game.ready(3, 4, 0, 1)
    assert game.driver.verdict is not None
    assert "formed anew 1 time, which is the limit (--reset-limit)" in game.world.said[-1]
