"""Brokers register, leave, die, are drained and forgotten."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, lopsided

from tocsin.coordinator.core import events as ev
from tocsin.errors import Busy, NotFound, Unauthorized
from tocsin.wire.tickets import TicketVerifier, key_for


def states(harness):
    return {each["name"]: each["state"] for each in harness.topology()["brokers"]}


def test_a_broker_is_up_from_its_first_full_report_on():
    harness = CoordinatorHarness()
    harness.register("a")
    assert states(harness) == {"a": "gone"}
    harness.report("a", full=True)
    assert states(harness) == {"a": "up"}


def test_a_broker_that_registers_gets_the_key_of_its_tickets():
    harness = CoordinatorHarness(interval=3.0)
    found = harness.register("a")
    assert found.key == key_for(b"s" * 32, "a").hex() and found.interval == 3.0


def test_a_name_belongs_to_the_broker_that_registered_it_first():
    harness = CoordinatorHarness()
    harness.register("a", key="first")
    with pytest.raises(Unauthorized, match="another broker is registered"):
        harness.register("a", key="second")


def test_a_name_belongs_to_its_broker_after_a_restart_of_the_coordinator():
    harness = CoordinatorHarness()
    harness.register("a", key="first")
    harness.restart()
    with pytest.raises(Unauthorized):
        harness.register("a", key="second")


def test_a_registration_is_stored():
    harness = CoordinatorHarness()
    harness.register("a", capacity=2.0, max_subscribers=7, lat=1.0, lon=2.0)
    row = harness.kept["a"]
    assert (row.url, row.capacity, row.max_subscribers, row.lat, row.lon, row.draining) == (
        "http://a",
        2.0,
        7,
        1.0,
        2.0,
        False,
    )


def test_a_repeated_registration_is_stored_again():
    harness = CoordinatorHarness()
    harness.register("a")
    harness.kept.clear()
    harness.register("a")
    assert "a" in harness.kept


def test_a_broker_that_does_not_report_is_gone():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a", {"subscriber-1": [1]})
    harness.tick(10)
    assert states(harness) == {"a": "up"}
    harness.tick(1)
    assert states(harness) == {"a": "gone"}
    assert harness.notes_of("died") == [
        "a has not reported for 11 s; 0 of its 1 subscribers are at other brokers already"
    ]


def test_registrations_without_reports_do_not_keep_a_broker_alive():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a")
    for _ in range(6):
        harness.register("a")
        harness.tick(2)
    assert states(harness) == {"a": "gone"}


def test_subscribers_of_a_dead_broker_are_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", {"subscriber-1": [1]})
    harness.tick(20)
    assert harness.topology()["subscribers"] == 0


def test_a_broker_can_return():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.tick(20)
    harness.join("a", {"subscriber-1": [1]})
    assert states(harness) == {"a": "up"} and harness.at("subscriber-1") == "a"
    assert harness.notes_of("joined") == ["a at http://a"] and harness.notes_of("returned") == ["a at http://a"]


def test_after_a_restart_of_the_coordinator_known_brokers_return():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.restart()
    assert states(harness) == {"a": "gone"}
    harness.join("a")
    assert harness.notes_of("returned") == ["a at http://a"]


def test_a_coordinator_that_was_suspended_keeps_its_brokers():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a")
    harness.tick(1)
    harness.now += 3600
    harness.handle(ev.Tick())
    assert states(harness) == {"a": "up"}


def test_a_clock_that_jumps_back_changes_nothing():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.now -= 500
    harness.tick(1)
    assert states(harness) == {"a": "up"}


def test_a_drained_broker_is_draining_after_a_restart_of_both_processes():
    harness = CoordinatorHarness()
    harness.join("a")
    assert harness.drain("a") == {"broker": "a", "state": "draining"}
    harness.restart()
    harness.join("a")
    assert states(harness) == {"a": "draining"}


def test_an_undrained_broker_is_up():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.drain("a")
    assert harness.drain("a", undo=True) == {"broker": "a", "state": "up"}
    assert not harness.kept["a"].draining


def test_draining_keeps_the_owner_of_a_name():
    harness = CoordinatorHarness()
    harness.register("a", key="first")
    harness.drain("a")
    with pytest.raises(Unauthorized):
        harness.register("a", key="second")


def test_an_unknown_broker_cannot_be_drained():
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(NotFound, match="zebra") as refused:
        harness.drain("zebra")
    assert refused.value.hint == "there are: a"


def test_a_live_broker_cannot_be_forgotten():
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(Busy):
        harness.handle(ev.Forget(0, "a"))


def test_a_broker_that_is_gone_can_be_forgotten():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.tick(20)
    harness.handle(ev.Forget(0, "a"))
    assert states(harness) == {} and harness.kept == {}


def test_the_slot_of_a_forgotten_broker_is_used_again():
    harness = CoordinatorHarness()
    for name in "abcdef":
        harness.join(name)
        harness.tick(20)
        harness.handle(ev.Forget(0, name))
    harness.join("g")
    assert harness.state.load.m == 1


def test_a_forgotten_broker_must_register_again():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.tick(20)
    harness.handle(ev.Forget(0, "a"))
    with pytest.raises(Unauthorized):
        harness.report("a")


def test_a_broker_that_leaves_is_gone_at_once():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.report("a", {"subscriber-1": [1]}, full=True)
    assert harness.handle(ev.Leave(0, "a", token)) == {"broker": "a"}
    assert states(harness) == {"a": "gone"} and harness.at("subscriber-1") is None


def test_a_report_after_its_broker_left_is_refused():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.report("a", full=True)
    harness.handle(ev.Leave(0, "a", token))
    with pytest.raises(Unauthorized):
        harness.report("a", {"subscriber-1": [1]}, full=True)


def test_a_broker_cannot_sign_off_another():
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(Unauthorized):
        harness.handle(ev.Leave(0, "a", harness.register("b").token))
    assert states(harness)["a"] == "up"


def test_a_broker_with_irregular_reports_gets_a_longer_timeout():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("even")
    harness.join("uneven")
    for second in range(60):
        harness.tick(1)
        harness.report("even")
        if second % 9 == 0 or second % 9 == 1:
            harness.report("uneven")
    harness.tick(13)
    assert states(harness) == {"even": "gone", "uneven": "up"}
    harness.tick(20)
    assert states(harness)["uneven"] == "gone", "but not for ever: three times as long at most"


def test_late_ticks_of_the_coordinator_lengthen_the_timeout():
    harness = CoordinatorHarness(gone_after=3.0)
    harness.join("a")
    for _ in range(10):
        harness.now += 2.4
        harness.handle(ev.Tick())
        harness.report("a")
    harness.tick(3.2)
    assert states(harness) == {"a": "up"}
    harness.run(20, "a")
    harness.tick(4)
    assert states(harness) == {"a": "gone"}


def test_the_absence_of_a_returned_broker_does_not_lengthen_its_timeout():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a")
    harness.run(20, "a")
    harness.tick(100)
    assert states(harness) == {"a": "gone"}
    harness.report("a", full=True)
    harness.run(3, "a")
    harness.tick(11)
    assert states(harness) == {"a": "gone"}


def test_a_ticket_from_before_the_brokers_restart_is_invalid():
    harness = CoordinatorHarness()
    harness.join("a", incarnation="first")
    ticket = harness.place("subscriber").ticket
    first, second = (TicketVerifier("a", lambda: 1e9 + harness.now) for _ in range(2))
    first.key = bytes.fromhex(harness.register("a", incarnation="first").key)
    assert first.refuses(ticket, "subscriber") is None
    second.key = bytes.fromhex(harness.register("a", incarnation="second").key)
    assert second.refuses(ticket, "subscriber") == "the signature is wrong"
    harness.report("a", full=True)
    assert second.refuses(harness.place("subscriber").ticket, "subscriber") is None


def test_a_ticket_from_before_the_coordinators_restart_is_valid():
    harness = CoordinatorHarness()
    harness.join("a", incarnation="first")
    ticket = harness.place("subscriber").ticket
    harness.restart()
    verifier = TicketVerifier("a", lambda: 1e9 + harness.now)
    verifier.key = bytes.fromhex(harness.register("a", incarnation="first").key)
    assert verifier.refuses(ticket, "subscriber") is None


def report_from(harness: CoordinatorHarness, seconds: int, *brokers: str) -> None:
    """Passes time in which only these brokers report."""
    for _ in range(seconds):
        harness.tick()
        for broker in brokers:
            harness.report(broker)


def test_no_subscriber_is_placed_at_a_broker_that_missed_a_report():
    harness = CoordinatorHarness(interval=1.0, gone_after=10.0, placement="round-robin")
    harness.join("a")
    harness.join("b")
    report_from(harness, 5, "a")
    assert {harness.place(f"newcomer-{number}").broker for number in range(4)} == {"a"}
    harness.report("b")
    assert {harness.place(f"latecomer-{number}").broker for number in range(4)} == {"a", "b"}


def test_the_only_broker_is_used_even_if_it_missed_a_report():
    harness = CoordinatorHarness(interval=1.0, gone_after=10.0)
    harness.join("a")
    harness.tick(5)
    assert harness.place().broker == "a"


def test_no_migration_is_planned_to_a_broker_that_missed_reports():
    harness = lopsided(interval=1.0, gone_after=10.0, balance_every=1.0, strategy="")
    report_from(harness, 5, "a")
    harness.handle(ev.Reconfigure(0, "ldm", {}))
    report_from(harness, 3, "a")
    assert harness.notes_of("migration") == []
    harness.report("b")
    harness.tick()
    assert harness.notes_of("migration") != []


def test_the_first_key_of_a_name_keeps_it() -> None:
    harness = CoordinatorHarness()
    harness.register("north")
    harness.register("north", key="first")
    for key in ({"key": "another"}, {}):
        with pytest.raises(Unauthorized):
            harness.register("north", **key)
