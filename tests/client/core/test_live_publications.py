"""Publications of a live feed at the client: two brokers may deliver one while it migrates, and it counts once."""

from __future__ import annotations

from tocsin.client.core.events import SubscribeRequested
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.wire import messages as wire
from tocsin.wire.position import Position


def state() -> SubscriptionState:
    found = SubscriptionState(SubscribeRequested(1, "feed:Alarms", ["TRUE"]))
    found.begin(Position(1, 100))
    return found


def notify(execution: int, head: str, epoch: int, sequence: int) -> wire.Notify:
    return wire.Notify("feed:Alarms", 7, execution, 1, [{"n": sequence}], (head, epoch, sequence))


def test_a_publication_of_two_brokers_counts_once():
    found = state()
    got = [found.accept(notify(*each)) for each in ((101, "h", 1, 1), (150, "h", 1, 1), (151, "h", 1, 2))]
    assert [each is not None for each in got] == [True, False, True]


def test_numbers_of_a_broker_whose_clock_is_late_lose_nothing():
    found = state()
    got = [found.accept(notify(*each)) for each in ((200, "h", 1, 1), (120, "h", 1, 2), (121, "g", 1, 1))]
    assert [each.execution for each in got if each is not None] == [200, 201, 202]


def test_a_head_that_restarts_counts_from_the_beginning():
    found = state()
    got = [found.accept(notify(*each)) for each in ((101, "h", 1, 9), (102, "h", 2, 1), (103, "h", 1, 10))]
    assert [each is not None for each in got] == [True, True, False]


def test_other_notifications_count_by_their_execution():
    found = state()
    plain = [wire.Notify("C", 7, execution, 1, [1]) for execution in (101, 101, 100, 102)]
    assert [found.accept(each) is not None for each in plain] == [True, False, False, True]
