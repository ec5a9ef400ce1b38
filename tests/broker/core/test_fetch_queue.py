"""What to fetch and who gets what out of it."""

from __future__ import annotations

from broker_harness import at, line

from tocsin.broker.core.fetch_queue import FetchQueue
from tocsin.broker.core.instructions import Fetch
from tocsin.broker.core.model.be_subscription import BESubscription, Channel
from tocsin.broker.core.model.cache import Recent
from tocsin.broker.core.model.rate import Rate


def subscription(number: int = 7, delivered: int = 20) -> BESubscription:
    return BESubscription(Channel("C"), [], [], Recent(0), Rate(0.0), id=number, live_after=delivered)


def test_one_fetch_is_for_all_who_wait_from_the_furthest_behind():
    fetches, back = FetchQueue(4), subscription()
    for peer, after in (("p", 9), ("q", 3), ("r", 5)):
        fetches.wait(back, peer, after)
    assert fetches.start() == [Fetch(1, "C", 7, at(3))] and fetches.start() == []


def test_only_so_many_fetches_run_at_a_time():
    fetches = FetchQueue(2)
    for number in range(1, 5):
        fetches.wait(subscription(number), "p", 0)
    assert len(fetches.start()) == 2
    fetches.fetched(1, [], False)
    assert [fetch.subscription for fetch in fetches.start()] == [3]


def test_nothing_is_fetched_for_who_has_left():
    fetches, back = FetchQueue(1), subscription()
    fetches.wait(back, "p", 3)
    del back.waiting["p"]
    assert fetches.start() == [] and not back.fetching


def test_peers_at_the_same_position_share():
    fetches, back = FetchQueue(1), subscription()
    for peer, after in (("p", 3), ("q", 5), ("r", 3)):
        fetches.wait(back, peer, after)
    fetches.start()
    shares = fetches.fetched(1, [line(7, 4), line(7, 6)], False)
    assert [(peers, [each.execution for each in lines]) for peers, lines in shares] == [
        (("p", "r"), [4, 6]),
        (("q",), [6]),
    ]


def test_a_whole_answer_covers_what_was_delivered_when_it_was_asked_for():
    fetches, back = FetchQueue(1), subscription(delivered=20)
    fetches.wait(back, "p", 3)
    fetches.start()
    back.last_delivered = 25
    fetches.fetched(1, [line(7, 4)], False)
    assert back.waiting == {"p": 20}


def test_a_page_covers_up_to_its_last_line():
    fetches, back = FetchQueue(1), subscription()
    fetches.wait(back, "p", 3)
    fetches.start()
    fetches.fetched(1, [line(7, 4), line(7, 9)], True)
    assert back.waiting == {"p": 9}


def test_what_is_not_delivered_yet_is_left_to_come_live():
    fetches, back = FetchQueue(1), subscription(delivered=20)
    fetches.wait(back, "p", 3)
    fetches.start()
    ((_, lines),) = fetches.fetched(1, [line(7, 4), line(7, 21)], True)
    assert [each.execution for each in lines] == [4] and back.waiting == {"p": 20}


def test_who_came_later_and_is_further_behind_is_not_covered():
    fetches, back = FetchQueue(1), subscription()
    fetches.wait(back, "p", 5)
    fetches.start()
    fetches.wait(back, "q", 2)
    fetches.fetched(1, [line(7, 6)], False)
    assert back.waiting == {"p": 20, "q": 2}


def test_whoever_still_waits_is_next():
    fetches, back = FetchQueue(1), subscription()
    fetches.wait(back, "p", 3)
    fetches.start()
    fetches.fetched(1, [line(7, 4)], True)
    fetches.again(back)
    assert fetches.start() == [Fetch(2, "C", 7, at(4))]


def test_who_wanted_what_is_gone_is_moved_behind_it():
    fetches, back = FetchQueue(1), subscription()
    for peer, after in (("p", 3), ("q", 9), ("r", 10)):
        fetches.wait(back, peer, after)
    fetches.start()
    missing = fetches.expired_before(1, 11)
    assert missing == [("p", 3), ("q", 9)] and back.waiting == {"p": 10, "q": 10, "r": 10}


def test_a_former_number_is_fetched_for_one_peer_alone():
    fetches, back = FetchQueue(2), subscription()
    fetches.fetch_previous(back, "p", (4,), 3)
    assert fetches.start() == [Fetch(1, "C", 4, at(3))] and fetches.current(fetches.jobs[1])


def test_only_the_latest_request_for_a_former_number_is_carried_out():
    fetches, back = FetchQueue(2), subscription()
    fetches.fetch_previous(back, "p", (4,), 3)
    fetches.fetch_previous(back, "p", (4,), 2)
    assert fetches.start() == [Fetch(2, "C", 4, at(2))]
