"""What to fetch and who gets what out of it."""

from __future__ import annotations

from stand import line

from tocsin.broker.core.be_subscription import BESubscription, Channel
from tocsin.broker.core.cache import Recent
from tocsin.broker.core.catchup import CatchUp
from tocsin.broker.core.instructions import Fetch
from tocsin.broker.core.rate import Rate


def subscription(number: int = 7, through: int = 20) -> BESubscription:
    return BESubscription(Channel("C"), [], [], Recent(0), Rate(0.0), id=number, start=through)


def test_one_fetch_is_for_all_who_wait_from_the_furthest_behind():
    catchup, back = CatchUp(4), subscription()
    for peer, after in (("p", 9), ("q", 3), ("r", 5)):
        catchup.wait(back, peer, after)
    assert catchup.start() == [Fetch(1, "C", 7, 3)] and catchup.start() == []


def test_only_so_many_fetches_run_at_a_time():
    catchup = CatchUp(2)
    for number in range(1, 5):
        catchup.wait(subscription(number), "p", 0)
    assert len(catchup.start()) == 2
    catchup.fetched(1, [], False)
    assert [fetch.subscription for fetch in catchup.start()] == [3]


def test_nothing_is_fetched_for_who_has_left():
    catchup, back = CatchUp(1), subscription()
    catchup.wait(back, "p", 3)
    del back.waiting["p"]
    assert catchup.start() == [] and not back.fetching


def test_peers_at_the_same_position_share():
    catchup, back = CatchUp(1), subscription()
    for peer, after in (("p", 3), ("q", 5), ("r", 3)):
        catchup.wait(back, peer, after)
    catchup.start()
    _, shares = catchup.fetched(1, [line(7, 4), line(7, 6)], False)
    assert [(share.peers, [each.execution for each in share.lines]) for share in shares] == [
        (("p", "r"), [4, 6]),
        (("q",), [6]),
    ]


def test_a_whole_answer_covers_what_was_delivered_when_it_was_asked_for():
    catchup, back = CatchUp(1), subscription(through=20)
    catchup.wait(back, "p", 3)
    catchup.start()
    back.last = 25
    catchup.fetched(1, [line(7, 4)], False)
    assert back.waiting == {"p": 20}


def test_a_page_covers_up_to_its_last_line():
    catchup, back = CatchUp(1), subscription()
    catchup.wait(back, "p", 3)
    catchup.start()
    catchup.fetched(1, [line(7, 4), line(7, 9)], True)
    assert back.waiting == {"p": 9}


def test_what_is_not_delivered_yet_is_left_to_come_live():
    catchup, back = CatchUp(1), subscription(through=20)
    catchup.wait(back, "p", 3)
    catchup.start()
    _, (share,) = catchup.fetched(1, [line(7, 4), line(7, 21)], True)
    assert [each.execution for each in share.lines] == [4] and back.waiting == {"p": 20}


def test_who_came_later_and_is_further_behind_is_not_covered():
    catchup, back = CatchUp(1), subscription()
    catchup.wait(back, "p", 5)
    catchup.start()
    catchup.wait(back, "q", 2)
    catchup.fetched(1, [line(7, 6)], False)
    assert back.waiting == {"p": 20, "q": 2}


def test_whoever_still_waits_is_next():
    catchup, back = CatchUp(1), subscription()
    catchup.wait(back, "p", 3)
    catchup.start()
    catchup.fetched(1, [line(7, 4)], True)
    catchup.again(back)
    assert catchup.start() == [Fetch(2, "C", 7, 4)]


def test_who_wanted_what_is_gone_is_moved_behind_it():
    catchup, back = CatchUp(1), subscription()
    for peer, after in (("p", 3), ("q", 9), ("r", 10)):
        catchup.wait(back, peer, after)
    catchup.start()
    _, missing = catchup.gone_before(1, 11)
    assert missing == [("p", 3), ("q", 9)] and back.waiting == {"p": 10, "q": 10, "r": 10}


def test_a_former_number_is_fetched_for_one_peer_alone():
    catchup, back = CatchUp(2), subscription()
    catchup.former(back, "p", (4,), 3)
    assert catchup.start() == [Fetch(1, "C", 4, 3)] and catchup.current(catchup.jobs[1])


def test_only_the_latest_request_for_a_former_number_is_carried_out():
    catchup, back = CatchUp(2), subscription()
    catchup.former(back, "p", (4,), 3)
    catchup.former(back, "p", (4,), 2)
    assert catchup.start() == [Fetch(2, "C", 4, 2)]
