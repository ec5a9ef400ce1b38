"""Migrations from the plan to their end."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, crowd, lopsided

from tocsin.coordinator.core import events as ev
from tocsin.wire.reports import FailedMigration


def outcomes(harness):
    return [note.text for note in harness.notes if note.kind == "migration" and not note.text.startswith("accepted")]


def ordered(harness, **fields):
    """Evaluates the balance; gives the orders for ``a``."""
    harness.tick(1)
    harness.report("b")
    return harness.report("a", **fields).migrations


def pending(harness):
    return harness.topology()["pending"]


def test_an_order_names_the_subscriber_the_target_and_a_ticket():
    harness = lopsided()
    verifier = harness.verifier("b")
    harness.report("b", full=True)
    order = ordered(harness)[0]
    assert (harness.at(order.subscriber), order.broker, order.url) == ("a", "b", "http://b")
    assert verifier.refuses(order.ticket, order.subscriber) is None


def test_an_order_is_given_once():
    harness = lopsided()
    assert len(ordered(harness)) == 5 and ordered(harness) == []


def test_a_migration_ends_when_the_subscriber_arrives():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b" and pending(harness) == 4
    assert outcomes(harness) == ["the subscriber has arrived"]


def test_the_source_may_report_the_departure_before_the_target_reports_the_arrival():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    assert harness.topology()["subscribers"] == 10
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b" and outcomes(harness) == ["the subscriber has arrived"]


def test_the_source_may_report_the_departure_after_the_target_reported_the_arrival():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    harness.report("a", left=[order.subscriber])
    assert harness.at(order.subscriber) == "b"


def test_a_failed_migration_leaves_the_subscriber_at_its_source():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("a", outcomes=[FailedMigration(order.ticket, "no way there")])
    assert harness.at(order.subscriber) == "a" and pending(harness) == 4
    assert outcomes(harness) == ["failed: no way there"]


def test_a_failed_migration_is_not_retried_during_the_cool_down():
    harness = lopsided(cool_down=60.0, in_flight=1, balance_every=1.0)
    (order,) = ordered(harness)
    (other,) = ordered(harness, outcomes=[FailedMigration(order.ticket, "no")]) or ordered(harness)
    assert other.subscriber != order.subscriber


def test_a_migration_without_an_outcome_times_out():
    harness = lopsided(migration_timeout=30.0, balance_every=1000.0)
    ordered(harness)
    harness.run(31, "a", "b")
    assert pending(harness) == 0 and outcomes(harness) == ["failed: it timed out"] * 5


def test_a_subscriber_that_left_and_never_arrived_is_forgotten():
    harness = lopsided(migration_timeout=30.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(31, "a", "b")
    assert harness.at(order.subscriber) is None and harness.topology()["subscribers"] == 9


def test_the_timeout_of_a_migration_starts_when_the_order_is_issued():
    harness = lopsided(migration_timeout=3.0, per_second=0.2, balance_every=1000.0)
    orders = harness.run(30, "a", "b")
    assert len(orders) == 5 and len({order.subscriber for order in orders}) == 5


def test_a_late_outcome_does_not_end_a_newer_migration():
    harness = lopsided(migration_timeout=5.0, cool_down=0.0, in_flight=1, balance_every=1.0)
    (old,) = ordered(harness)
    again = []
    while not again:
        again = [order for order in harness.run(1, "a", "b") if order.subscriber == old.subscriber]
    harness.report("a", outcomes=[FailedMigration(old.ticket, "late")])
    assert pending(harness) == 1


def test_a_subscriber_that_left_before_its_order_is_not_migrated():
    harness = lopsided(per_second=1.0)
    first = ordered(harness)
    names = {harness.state.model.subscribers.name(u) for u in harness.state.host.pending}
    waiting = names - {order.subscriber for order in first}
    harness.report("a", left=sorted(waiting))
    assert pending(harness) == 1 and harness.topology()["subscribers"] == 10 - len(waiting)
    assert not {order.subscriber for order in harness.run(5, "a", "b")} & waiting


def test_a_migration_is_cancelled_when_the_subscriber_connects_elsewhere():
    harness = lopsided()
    harness.join("c")
    order = ordered(harness)[0]
    harness.place_and_report("c", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "c" and "cancelled: the subscriber connected elsewhere" in outcomes(harness)


def test_a_migrating_subscriber_that_reaches_a_third_broker_is_only_there():
    harness = lopsided()
    harness.join("c")
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.report("c", {order.subscriber: [0]})
    harness.report("c", left=[order.subscriber])
    assert harness.at(order.subscriber) is None


def test_a_migrating_subscriber_that_returns_to_its_source_stays_known_there():
    harness = lopsided(migration_timeout=5.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.report("a", {order.subscriber: [0]})
    harness.run(8, "a", "b")
    assert harness.at(order.subscriber) == "a"


def test_a_subscriber_that_leaves_its_target_is_at_its_source_again():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.report("b", {order.subscriber: [0]})
    harness.report("b", left=[order.subscriber])
    assert harness.at(order.subscriber) == "a"


def test_migrations_to_a_dead_broker_are_cancelled():
    harness = lopsided(per_second=1.0, gone_after=5.0, balance_every=1000.0)
    ordered(harness)
    orders = harness.run(10, "a")
    assert len(orders) <= 6 and pending(harness) == 0
    assert "cancelled: b is gone" in outcomes(harness)
    assert harness.run(5, "a") == []


def test_migrations_to_a_drained_broker_are_not_ordered():
    harness = lopsided(per_second=1.0)
    ordered(harness)
    harness.drain("b")
    assert harness.report("a").migrations == [] and harness.run(5, "a", "b") == []


def test_migrations_to_a_full_broker_are_cancelled():
    harness = CoordinatorHarness(per_second=1.0)
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b", max_subscribers=5)
    harness.tick(1)
    harness.report("b", {f"newcomer-{number}": [0] for number in range(5)})
    assert harness.report("a").migrations == []
    assert "cancelled: b accepts no more subscribers" in outcomes(harness)


def test_migrations_in_flight_count_toward_the_limit_of_a_broker():
    harness = CoordinatorHarness(per_second=1.0, balance_every=1000.0)
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b", max_subscribers=5)
    harness.tick(1)
    harness.report("a")
    harness.report("b", {f"newcomer-{number}": [0] for number in range(3)})
    assert len(harness.run(10, "a", "b")) == 1


def test_an_order_has_the_current_address_of_its_target():
    harness = lopsided()
    harness.tick(1)
    harness.register("b", url="http://moved")
    harness.report("b", full=True)
    assert {order.url for order in harness.report("a").migrations} == {"http://moved"}


def test_the_migrations_of_a_dead_source_end():
    harness = lopsided(gone_after=5.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(10, "b")
    assert pending(harness) == 0 and harness.topology()["subscribers"] == 0


def test_a_subscriber_on_its_way_to_a_dead_target_is_forgotten():
    harness = lopsided(gone_after=5.0, balance_every=1000.0)
    order = ordered(harness)[0]
    harness.report("a", left=[order.subscriber])
    harness.run(10, "a")
    assert harness.at(order.subscriber) is None and pending(harness) == 0


def test_a_subscriber_on_its_way_to_a_drained_target_may_arrive():
    harness = lopsided()
    order = ordered(harness)[0]
    harness.drain("b")
    harness.run(1, "a", "b")
    harness.report("b", {order.subscriber: [0]})
    assert harness.at(order.subscriber) == "b"


def test_the_limit_of_migrations_in_flight_holds():
    harness = lopsided(in_flight=2)
    harness.run(30, "a", "b")
    assert pending(harness) == 2


def test_the_limit_of_migrations_per_broker_holds():
    harness = lopsided(per_broker=3)
    harness.run(30, "a", "b")
    assert pending(harness) == 3


def test_the_limit_of_migrations_per_second_holds():
    harness = lopsided(per_second=2.0)
    harness.tick(1)
    counts = []
    for _ in range(4):
        counts.append(len(harness.report("a").migrations))
        harness.now += 0.5
        harness.report("b")
    assert counts == [2, 1, 1, 1]


def test_no_migration_starts_before_all_known_brokers_have_reported():
    harness = lopsided(gone_after=10.0)
    harness.restart()
    harness.join("a", crowd(10, 1), rates={1: 9.0})
    harness.tick(9)
    assert pending(harness) == 0
    harness.report("a")
    harness.join("b")
    harness.tick(1)
    assert pending(harness) == 5


def test_migrations_start_without_a_broker_that_never_reports():
    harness = lopsided(gone_after=10.0)
    harness.join("c")
    harness.restart()
    harness.join(
        "a", {f"subscriber-{number:04}": [number] for number in range(10)}, rates=dict.fromkeys(range(10), 9.0)
    )
    harness.join("b")
    harness.run(12, "a", "b")
    assert pending(harness) == 5


def test_no_migration_starts_while_a_registered_broker_has_not_reported():
    harness = lopsided()
    harness.register("b")
    harness.tick(1)
    assert pending(harness) == 0


def test_a_drained_broker_is_emptied():
    harness = CoordinatorHarness(strategy="", balance_every=1000.0)
    harness.join("a", crowd(3, 1), rates={1: 1.0})
    harness.join("b")
    harness.tick(1)
    harness.drain("a")
    orders = harness.run(1, "a", "b")
    assert {order.subscriber for order in orders} == set(crowd(3)) and {order.broker for order in orders} == {"b"}


def test_a_failing_strategy_leaves_the_state_machine_usable():
    class Broken:
        def suggest(self, view):
            raise ZeroDivisionError

        def objective(self, view):
            return 0.0

    harness = lopsided()
    harness.state.host.use(Broken(), harness.state.host.guards)
    harness.now += 1
    with pytest.raises(ZeroDivisionError):
        harness.handle(ev.Tick())
    assert harness.topology()["subscribers"] == 10
