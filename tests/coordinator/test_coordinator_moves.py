"""Moves from the plan to their end."""

from __future__ import annotations

import pytest
from office import Office, crowd, lopsided

from tocsin.coordinator.core import events as ev
from tocsin.wire.reports import FailedMigration


def moved(office):
    return [note.text for note in office.notes if note.kind == "move" and not note.text.startswith("accepted")]


def ordered(office, **fields):
    """Looks at the balance; gives what ``a`` is ordered."""
    office.tick(1)
    office.report("b")
    return office.report("a", **fields).moves


def pending(office):
    assert len(office.state.transfers) == len(office.state.balancer.pending)
    return office.topology()["pending"]


def test_an_order_says_who_goes_where_with_what():
    office = lopsided()
    door = office.wicket("b")
    office.report("b", full=True)
    order = ordered(office)[0]
    assert (office.at(order.subscriber), order.broker, order.url) == ("a", "b", "http://b")
    assert door.refuses(order.ticket, order.subscriber) is None


def test_an_order_is_given_once():
    office = lopsided()
    assert len(ordered(office)) == 5 and ordered(office) == []


def test_a_subscriber_that_arrives_has_been_moved():
    office = lopsided()
    order = ordered(office)[0]
    office.report("b", {order.subscriber: [0]})
    assert office.at(order.subscriber) == "b" and pending(office) == 4
    assert moved(office) == ["the subscriber has arrived"]


def test_it_may_leave_before_it_is_seen_to_arrive():
    office = lopsided()
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    assert office.topology()["subscribers"] == 10
    office.report("b", {order.subscriber: [0]})
    assert office.at(order.subscriber) == "b" and moved(office) == ["the subscriber has arrived"]


def test_it_may_leave_after_it_was_seen_to_arrive():
    office = lopsided()
    order = ordered(office)[0]
    office.report("b", {order.subscriber: [0]})
    office.report("a", left=[order.subscriber])
    assert office.at(order.subscriber) == "b"


def test_a_subscriber_that_refuses_stays():
    office = lopsided()
    order = ordered(office)[0]
    office.report("a", outcomes=[FailedMigration(order.ticket, "no way there")])
    assert office.at(order.subscriber) == "a" and pending(office) == 4
    assert moved(office) == ["failed: no way there"]


def test_what_failed_is_not_tried_again_soon():
    office = lopsided(cool_down=60.0, moves=1, balance_every=1.0)
    (order,) = ordered(office)
    (other,) = ordered(office, outcomes=[FailedMigration(order.ticket, "no")]) or ordered(office)
    assert other.subscriber != order.subscriber


def test_a_move_that_nobody_answers_fails_in_time():
    office = lopsided(move_seconds=30.0, balance_every=1000.0)
    ordered(office)
    office.alive(31, "a", "b")
    assert pending(office) == 0 and moved(office) == ["failed: it did not arrive in time"] * 5


def test_one_that_left_and_never_arrived_is_forgotten_in_time():
    office = lopsided(move_seconds=30.0, balance_every=1000.0)
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    office.alive(31, "a", "b")
    assert office.at(order.subscriber) is None and office.topology()["subscribers"] == 9


def test_the_time_of_a_move_begins_when_it_is_handed_out():
    office = lopsided(move_seconds=3.0, per_second=0.2, balance_every=1000.0)
    orders = office.alive(30, "a", "b")
    assert len(orders) == 5 and len({order.subscriber for order in orders}) == 5


def test_an_old_answer_does_not_end_a_new_move():
    office = lopsided(move_seconds=5.0, cool_down=0.0, moves=1, balance_every=1.0)
    (old,) = ordered(office)
    again = []
    while not again:
        again = [order for order in office.alive(1, "a", "b") if order.subscriber == old.subscriber]
    office.report("a", outcomes=[FailedMigration(old.ticket, "late")])
    assert pending(office) == 1


def test_one_who_left_before_the_order_was_given_is_not_moved():
    office = lopsided(per_second=1.0)
    first = ordered(office)
    waiting = set(office.state.transfers) - {order.subscriber for order in first}
    office.report("a", left=sorted(waiting))
    assert pending(office) == 1 and office.topology()["subscribers"] == 10 - len(waiting)
    assert not {order.subscriber for order in office.alive(5, "a", "b")} & waiting


def test_one_who_went_elsewhere_by_itself_is_not_moved():
    office = lopsided()
    office.join("c")
    order = ordered(office)[0]
    office.welcome("c", {order.subscriber: [0]})
    assert office.at(order.subscriber) == "c" and "dropped: it went elsewhere by itself" in moved(office)


def test_one_who_left_on_a_move_and_comes_to_a_third_broker_is_there_only():
    office = lopsided()
    office.join("c")
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    office.report("c", {order.subscriber: [0]})
    office.report("c", left=[order.subscriber])
    assert office.at(order.subscriber) is None


def test_one_who_left_on_a_move_and_comes_back_is_there_still():
    office = lopsided(move_seconds=5.0, balance_every=1000.0)
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    office.report("a", {order.subscriber: [0]})
    office.alive(8, "a", "b")
    assert office.at(order.subscriber) == "a"


def test_a_subscriber_that_turns_back_from_its_target_is_where_it_was():
    office = lopsided()
    order = ordered(office)[0]
    office.report("b", {order.subscriber: [0]})
    office.report("b", left=[order.subscriber])
    assert office.at(order.subscriber) == "a"


def test_no_order_to_a_broker_that_has_died():
    office = lopsided(per_second=1.0, gone_after=5.0, balance_every=1000.0)
    ordered(office)
    orders = office.alive(10, "a")
    assert len(orders) <= 6 and pending(office) == 0
    assert "dropped: b is gone" in moved(office)
    assert office.alive(5, "a") == []


def test_no_order_to_a_broker_that_is_drained():
    office = lopsided(per_second=1.0)
    ordered(office)
    office.drain("b")
    assert office.report("a").moves == [] and office.alive(5, "a", "b") == []


def test_no_order_to_a_broker_that_has_filled_up():
    office = Office(per_second=1.0)
    office.join("a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0))
    office.join("b", most=5)
    office.tick(1)
    office.report("b", {f"newcomer-{number}": [0] for number in range(5)})
    assert office.report("a").moves == []
    assert "dropped: b takes nobody any more" in moved(office)


def test_those_under_way_count_for_what_a_broker_takes():
    office = Office(per_second=1.0, balance_every=1000.0)
    office.join("a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0))
    office.join("b", most=5)
    office.tick(1)
    office.report("a")
    office.report("b", {f"newcomer-{number}": [0] for number in range(3)})
    assert len(office.alive(10, "a", "b")) == 1


def test_an_order_has_the_address_of_now():
    office = lopsided()
    office.tick(1)
    office.register("b", url="http://moved")
    office.report("b", full=True)
    assert {order.url for order in office.report("a").moves} == {"http://moved"}


def test_if_the_source_dies_its_moves_are_over():
    office = lopsided(gone_after=5.0)
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    office.alive(10, "b")
    assert pending(office) == 0 and office.topology()["subscribers"] == 0


def test_if_the_target_dies_one_that_has_left_is_forgotten():
    office = lopsided(gone_after=5.0, balance_every=1000.0)
    order = ordered(office)[0]
    office.report("a", left=[order.subscriber])
    office.alive(10, "a")
    assert office.at(order.subscriber) is None and pending(office) == 0


def test_if_the_target_is_drained_what_is_under_way_may_arrive():
    office = lopsided()
    order = ordered(office)[0]
    office.drain("b")
    office.alive(1, "a", "b")
    office.report("b", {order.subscriber: [0]})
    assert office.at(order.subscriber) == "b"


def test_no_more_are_pending_than_may_be():
    office = lopsided(moves=2)
    office.alive(30, "a", "b")
    assert pending(office) == 2


def test_no_more_are_pending_at_a_broker_than_may_be():
    office = lopsided(per_broker=3)
    office.alive(30, "a", "b")
    assert pending(office) == 3


def test_no_more_begin_in_a_second_than_may():
    office = lopsided(per_second=2.0)
    office.tick(1)
    counts = []
    for _ in range(4):
        counts.append(len(office.report("a").moves))
        office.now += 0.5
        office.report("b")
    assert counts == [2, 1, 1, 1]


def test_nobody_is_moved_before_all_remembered_brokers_have_reported():
    office = lopsided(gone_after=10.0)
    office.restart()
    office.join("a", crowd(10, 1), rates={1: 9.0})
    office.tick(9)
    assert pending(office) == 0
    office.report("a")
    office.join("b")
    office.tick(1)
    assert pending(office) == 5


def test_those_who_do_not_report_are_not_waited_for_for_ever():
    office = lopsided(gone_after=10.0)
    office.join("c")
    office.restart()
    office.join("a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0))
    office.join("b")
    office.alive(12, "a", "b")
    assert pending(office) == 5


def test_nobody_is_moved_while_a_broker_has_registered_and_not_reported():
    office = lopsided()
    office.register("b")
    office.tick(1)
    assert pending(office) == 0


def test_a_broker_that_is_drained_is_emptied():
    office = Office(strategy="", balance_every=1000.0)
    office.join("a", crowd(3, 1), rates={1: 1.0})
    office.join("b")
    office.tick(1)
    office.drain("a")
    orders = office.alive(1, "a", "b")
    assert {order.subscriber for order in orders} == set(crowd(3)) and {order.broker for order in orders} == {"b"}


def test_a_strategy_that_fails_leaves_no_answer_behind():
    class Broken:
        def suggest(self, view):
            raise ZeroDivisionError

        def objective(self, view):
            return 0.0

    office = lopsided()
    office.state.balancer.strategy = Broken()
    office.now += 1
    with pytest.raises(ZeroDivisionError):
        office.tell(ev.Tick())
    assert office.topology()["subscribers"] == 10
