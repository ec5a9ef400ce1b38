"""Which results the broker fetches, and which peers receive them."""

from __future__ import annotations

from broker_harness import at, line

from tocsin.broker.core.fetch_queue import FetchQueue
from tocsin.broker.core.instructions import Fetch
from tocsin.broker.core.model.be_subscription import BESubscription, Channel
from tocsin.broker.core.model.cache import Recent
from tocsin.broker.core.model.rate import Rate


def subscription(id_: int = 7, delivered: int = 20) -> BESubscription:
    return BESubscription(Channel("C"), [], [], Recent(0), Rate(0.0), id=id_, live_after=delivered)


def test_one_fetch_serves_all_waiting_peers_from_the_oldest_position():
    fetches, be = FetchQueue(4), subscription()
    for peer, after in (("p", 9), ("q", 3), ("r", 5)):
        fetches.wait(be, peer, after)
    assert fetches.start() == [Fetch(1, "C", 7, at(3))] and fetches.start() == []


def test_the_number_of_concurrent_fetches_is_limited():
    fetches = FetchQueue(2)
    for id_ in range(1, 5):
        fetches.wait(subscription(id_), "p", 0)
    assert len(fetches.start()) == 2
    fetches.fetched(1, [], False)
    assert [fetch.subscription for fetch in fetches.start()] == [3]


def test_nothing_is_fetched_for_a_peer_that_has_left():
    fetches, be = FetchQueue(1), subscription()
    fetches.wait(be, "p", 3)
    del be.waiting["p"]
    assert fetches.start() == [] and not be.fetching


def test_peers_at_the_same_position_share_one_result():
    fetches, be = FetchQueue(1), subscription()
    for peer, after in (("p", 3), ("q", 5), ("r", 3)):
        fetches.wait(be, peer, after)
    fetches.start()
    shares = fetches.fetched(1, [line(7, 4), line(7, 6)], False)
    assert [(peers, [each.execution for each in lines]) for peers, lines in shares] == [
        (("p", "r"), [4, 6]),
        (("q",), [6]),
    ]


def test_a_complete_answer_covers_what_was_delivered_at_the_time_of_its_request():
    fetches, be = FetchQueue(1), subscription(delivered=20)
    fetches.wait(be, "p", 3)
    fetches.start()
    be.last_delivered = 25
    fetches.fetched(1, [line(7, 4)], False)
    assert be.waiting == {"p": 20}


def test_a_page_covers_up_to_its_last_line():
    fetches, be = FetchQueue(1), subscription()
    fetches.wait(be, "p", 3)
    fetches.start()
    fetches.fetched(1, [line(7, 4), line(7, 9)], True)
    assert be.waiting == {"p": 9}


def test_results_that_are_not_delivered_yet_are_left_to_live_delivery():
    fetches, be = FetchQueue(1), subscription(delivered=20)
    fetches.wait(be, "p", 3)
    fetches.start()
    ((_, lines),) = fetches.fetched(1, [line(7, 4), line(7, 21)], True)
    assert [each.execution for each in lines] == [4] and be.waiting == {"p": 20}


def test_a_later_peer_with_an_older_position_is_not_covered():
    fetches, be = FetchQueue(1), subscription()
    fetches.wait(be, "p", 5)
    fetches.start()
    fetches.wait(be, "q", 2)
    fetches.fetched(1, [line(7, 6)], False)
    assert be.waiting == {"p": 20, "q": 2}


def test_a_peer_that_still_waits_is_fetched_for_next():
    fetches, be = FetchQueue(1), subscription()
    fetches.wait(be, "p", 3)
    fetches.start()
    fetches.fetched(1, [line(7, 4)], True)
    fetches.again(be)
    assert fetches.start() == [Fetch(2, "C", 7, at(4))]


def test_peers_that_wait_for_expired_results_continue_after_them():
    fetches, be = FetchQueue(1), subscription()
    for peer, after in (("p", 3), ("q", 9), ("r", 10)):
        fetches.wait(be, peer, after)
    fetches.start()
    missing = fetches.expired_before(1, 11)
    assert missing == [("p", 3), ("q", 9)] and be.waiting == {"p": 10, "q": 10, "r": 10}


def test_a_previous_id_is_fetched_for_one_peer_alone():
    fetches, be = FetchQueue(2), subscription()
    fetches.fetch_previous(be, "p", (4,), 3)
    assert fetches.start() == [Fetch(1, "C", 4, at(3), same_as=7)] and fetches.current(fetches.jobs[1])


def test_only_the_latest_request_for_a_previous_id_is_carried_out():
    fetches, be = FetchQueue(2), subscription()
    fetches.fetch_previous(be, "p", (4,), 3)
    fetches.fetch_previous(be, "p", (4,), 2)
    assert fetches.start() == [Fetch(2, "C", 4, at(2), same_as=7)]
