"""Moves from the plan to their end."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, crowd, lopsided

from tocsin.coordinator.core import events as ev
from tocsin.wire.reports import FailedMigration


def moved(harness):
    return [note.text for note in harness.notes if note.kind == "migration" and not note.text.startswith("accepted")]


def ordered(harness, **fields):
    """Looks at the balance; gives what ``a`` is ordered."""
    harness.tick(1)
    harness.report("b")
    return harness.report("a", **fields).migrations


def pending(harness):
    return harness.topology()["pending"]


def test_an_order_says_who_goes_where_with_what():
    harness = lopsided()
    door = harness.verifier("b")
    harness.report("b", full=True)
    order = ordered(harness)[0]
    assert (harness.at(order.subscriber), order.broker, order.url) == ("a", "b", "http://b")
    assert door.refuses(order.ticket, order.subscriber) is None


def test_an_order_is_given_once():
    harness = lopsided()
    assert len(ordered(harness)) == 5 and ordered(harness) == []


def test_a_subscriber_that_arrives_has_been_moved():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b" and pending(harness) == 4
    assert moved(harness) == ["the subscriber has arrived"]


def test_it_may_leave_before_it_is_seen_to_arrive():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    assert harness.topology()["subscribers"] == 10
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b" and moved(harness) == ["the subscriber has arrived"]


def test_it_may_leave_after_it_was_seen_to_arrive():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    harness.report("a", left=[order.subscriber])
    assert harness.at(order.subscriber) == "b"


def test_a_subscriber_that_refuses_stays():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("a", outcomes=[FailedMigration(order.ticket, "no way there")])
    assert harness.at(order.subscriber) == "a" and pending(harness) == 4
    assert moved(harness) == ["failed: no way there"]


def test_what_failed_is_not_tried_again_soon():
    harness = lopsided(cool_down=60.0, in_flight=1, balance_every=1.0)
    (order,) = ordered(harness)
    (other,) = ordered(harness, outcomes=[FailedMigration(order.ticket, "no")]) or ordered(harness)
    assert other.subscriber != order.subscriber


def test_a_move_that_nobody_answers_fails_in_time():
    harness = lopsided(migration_timeout=30.0, balance_every=1000.0)
    ordered(harness)
    harness.run(31, "a", "b")
    assert pending(harness) == 0 and moved(harness) == ["failed: it timed out"] * 5


def test_one_that_left_and_never_arrived_is_forgotten_in_time():
    harness = lopsided(migration_timeout=30.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(31, "a", "b")
    assert harness.at(order.subscriber) is None and harness.topology()["subscribers"] == 9


def test_the_time_of_a_move_begins_when_it_is_handed_out():
    harness = lopsided(migration_timeout=3.0, per_second=0.2, balance_every=1000.0)
    orders = harness.run(30, "a", "b")
    assert len(orders) == 5 and len({order.subscriber for order in orders}) == 5


def test_an_old_answer_does_not_end_a_new_move():
    harness = lopsided(migration_timeout=5.0, cool_down=0.0, in_flight=1, balance_every=1.0)
    (old,) = ordered(harness)
    again = []
    while not again:
        again = [order for order in harness.run(1, "a", "b") if order.subscriber == old.subscriber]
    harness.report("a", outcomes=[FailedMigration(old.ticket, "late")])
    assert pending(harness) == 1


def test_one_who_left_before_the_order_was_given_is_not_moved():
    harness = lopsided(per_second=1.0)
    first = ordered(harness)
    names = {harness.state.model.subscribers.name(u) for u in harness.state.balancer.pending}
    waiting = names - {order.subscriber for order in first}
    harness.report("a", left=sorted(waiting))
    assert pending(harness) == 1 and harness.topology()["subscribers"] == 10 - len(waiting)
    assert not {order.subscriber for order in harness.run(5, "a", "b")} & waiting


def test_one_who_went_elsewhere_by_itself_is_not_moved():
    harness = lopsided()
    harness.join("c")
    order = ordered(harness)[0]
    harness.place_and_report("c", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "c" and "cancelled: the subscriber connected elsewhere" in moved(harness)


def test_one_who_left_on_a_move_and_comes_to_a_third_broker_is_there_only():
    harness = lopsided()
    harness.join("c")
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.report("c", {order.subscriber: [0]})
    harness.report("c", left=[order.subscriber])
    assert harness.at(order.subscriber) is None


def test_one_who_left_on_a_move_and_comes_back_is_there_still():
    harness = lopsided(migration_timeout=5.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.report("a", {order.subscriber: [0]})
    harness.run(8, "a", "b")
    assert harness.at(order.subscriber) == "a"


def test_a_subscriber_that_turns_back_from_its_target_is_where_it_was():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    harness.report("b", left=[order.subscriber])
    assert harness.at(order.subscriber) == "a"


def test_no_order_to_a_broker_that_has_died():
    harness = lopsided(per_second=1.0, gone_after=5.0, balance_every=1000.0)
    ordered(harness)
    orders = harness.run(10, "a")
    assert len(orders) <= 6 and pending(harness) == 0
    assert "cancelled: b is gone" in moved(harness)
    assert harness.run(5, "a") == []


def test_no_order_to_a_broker_that_is_drained():
    harness = lopsided(per_second=1.0)
    ordered(harness)
    harness.drain("b")
    assert harness.report("a").migrations == [] and harness.run(5, "a", "b") == []


def test_no_order_to_a_broker_that_has_filled_up():
    harness = CoordinatorHarness(per_second=1.0)
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b", max_subscribers=5)
    harness.tick(1)
    harness.report("b", {f"newcomer-{number}": [0] for number in range(5)})
    assert harness.report("a").migrations == []
    assert "cancelled: b accepts no more subscribers" in moved(harness)


def test_those_under_way_count_for_what_a_broker_takes():
    harness = CoordinatorHarness(per_second=1.0, balance_every=1000.0)
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b", max_subscribers=5)
    harness.tick(1)
    harness.report("a")
    harness.report("b", {f"newcomer-{number}": [0] for number in range(3)})
    assert len(harness.run(10, "a", "b")) == 1


def test_an_order_has_the_address_of_now():
    harness = lopsided()
    harness.tick(1)
    harness.register("b", url="http://moved")
    harness.report("b", full=True)
    assert {order.url for order in harness.report("a").migrations} == {"http://moved"}


def test_if_the_source_dies_its_moves_are_over():
    harness = lopsided(gone_after=5.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(10, "b")
    assert pending(harness) == 0 and harness.topology()["subscribers"] == 0


def test_if_the_target_dies_one_that_has_left_is_forgotten():
    harness = lopsided(gone_after=5.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(10, "a")
    assert harness.at(order.subscriber) is None and pending(harness) == 0


def test_if_the_target_is_drained_what_is_under_way_may_arrive():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.drain("b")
    harness.run(1, "a", "b")
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b"


def test_no_more_are_pending_than_may_be():
    harness = lopsided(in_flight=2)
    harness.run(30, "a", "b")
    assert pending(harness) == 2


def test_no_more_are_pending_at_a_broker_than_may_be():
    harness = lopsided(per_broker=3)
    harness.run(30, "a", "b")
    assert pending(harness) == 3


def test_no_more_begin_in_a_second_than_may():
    harness = lopsided(per_second=2.0)
    harness.tick(1)
    counts = []
    for _ in range(4):
        counts.append(len(harness.report("a").migrations))
        harness.now += 0.5
        harness.report("b")
    assert counts == [2, 1, 1, 1]


def test_nobody_is_moved_before_all_remembered_brokers_have_reported():
    harness = lopsided(gone_after=10.0)
    harness.restart()
    harness.join("a", crowd(10, 1), rates={1: 9.0})
    harness.tick(9)
    assert pending(harness) == 0
    harness.report("a")
    harness.join("b")
    harness.tick(1)
    assert pending(harness) == 5


def test_those_who_do_not_report_are_not_waited_for_for_ever():
    harness = lopsided(gone_after=10.0)
    harness.join("c")
    harness.restart()
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b")
    harness.run(12, "a", "b")
    assert pending(harness) == 5


def test_nobody_is_moved_while_a_broker_has_registered_and_not_reported():
    harness = lopsided()
    harness.register("b")
    harness.tick(1)
    assert pending(harness) == 0


def test_a_broker_that_is_drained_is_emptied():
    harness = CoordinatorHarness(strategy="", balance_every=1000.0)
    harness.join("a", crowd(3, 1), rates={1: 1.0})
    harness.join("b")
    harness.tick(1)
    harness.drain("a")
    orders = harness.run(1, "a", "b")
    assert {order.subscriber for order in orders} == set(crowd(3)) and {order.broker for order in orders} == {"b"}


def test_a_strategy_that_fails_leaves_no_answer_behind():
    class Broken:
        def suggest(self, view):
            raise ZeroDivisionError

        def objective(self, view):
            return 0.0

    harness = lopsided()
    harness.state.balancer.strategy = Broken()
    harness.now += 1
    with pytest.raises(ZeroDivisionError):
        harness.handle(ev.Tick())
    assert harness.topology()["subscribers"] == 10
