"""Brokers come, go, are drained and forgotten."""

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


def test_who_registers_gets_the_key_of_its_own_tickets():
    harness = CoordinatorHarness(interval=3.0)
    found = harness.register("a")
    assert found.key == key_for(b"s" * 32, "a").hex() and found.interval == 3.0


def test_a_broker_without_the_secret_is_refused():
    with pytest.raises(Unauthorized):
        CoordinatorHarness(secret="right").register("a", secret="wrong")


def test_a_secret_may_have_any_letters():
    with pytest.raises(Unauthorized):
        CoordinatorHarness(secret="straße").register("a", secret="köln")
    assert CoordinatorHarness(secret="straße").register("a", secret="straße").broker == "a"


def test_a_name_belongs_to_who_registered_it_first():
    harness = CoordinatorHarness()
    harness.register("a", identity="first")
    with pytest.raises(Unauthorized, match="another broker is registered"):
        harness.register("a", identity="second")


def test_a_name_belongs_to_its_broker_after_a_restart_of_the_coordinator_too():
    harness = CoordinatorHarness()
    harness.register("a", identity="first")
    harness.restart()
    with pytest.raises(Unauthorized):
        harness.register("a", identity="second")


def test_a_registration_is_kept():
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


def test_a_registration_is_kept_again_if_the_first_time_failed():
    harness = CoordinatorHarness()
    harness.register("a")
    harness.kept.clear()
    harness.register("a")
    assert "a" in harness.kept


def test_a_broker_that_is_not_heard_is_gone():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a", {"somebody": [1]})
    harness.tick(10)
    assert states(harness) == {"a": "up"}
    harness.tick(1)
    assert states(harness) == {"a": "gone"}
    assert harness.notes_of("died") == [
        "a has not reported for 11 s; 0 of its 1 subscribers are at other brokers already"
    ]


def test_registering_again_and_again_is_no_sign_of_life():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a")
    for _ in range(6):
        harness.register("a")
        harness.tick(2)
    assert states(harness) == {"a": "gone"}


def test_subscribers_of_a_dead_broker_are_forgotten():
    harness = CoordinatorHarness()
    harness.join("a", {"somebody": [1]})
    harness.tick(20)
    assert harness.topology()["subscribers"] == 0


def test_a_broker_comes_back():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.tick(20)
    harness.join("a", {"somebody": [1]})
    assert states(harness) == {"a": "up"} and harness.at("somebody") == "a"
    assert harness.notes_of("joined") == ["a at http://a"] and harness.notes_of("returned") == ["a at http://a"]


def test_after_a_restart_of_the_coordinator_brokers_return():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.restart()
    assert states(harness) == {"a": "gone"}
    harness.join("a")
    assert harness.notes_of("returned") == ["a at http://a"]


def test_a_coordinator_that_slept_does_not_bury_its_brokers():
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


def test_draining_is_kept_over_a_restart_of_both():
    harness = CoordinatorHarness()
    harness.join("a")
    assert harness.drain("a") == {"broker": "a", "state": "draining"}
    harness.restart()
    harness.join("a")
    assert states(harness) == {"a": "draining"}


def test_undrained_it_is_up():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.drain("a")
    assert harness.drain("a", undo=True) == {"broker": "a", "state": "up"}
    assert not harness.kept["a"].draining


def test_draining_keeps_whose_name_it_is():
    harness = CoordinatorHarness()
    harness.register("a", identity="first")
    harness.drain("a")
    with pytest.raises(Unauthorized):
        harness.register("a", identity="second")


def test_a_broker_nobody_knows_cannot_be_drained():
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(NotFound, match="zebra") as refused:
        harness.drain("zebra")
    assert refused.value.hint == "there are: a"


def test_a_broker_that_is_alive_is_not_forgotten():
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


def test_the_place_of_a_forgotten_broker_is_given_again():
    harness = CoordinatorHarness()
    for name in "abcdef":
        harness.join(name)
        harness.tick(20)
        harness.handle(ev.Forget(0, name))
    harness.join("g")
    assert harness.state.load.m == 1


def test_a_forgotten_broker_has_to_register_again():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.tick(20)
    harness.handle(ev.Forget(0, "a"))
    with pytest.raises(Unauthorized):
        harness.report("a")


def test_a_broker_that_leaves_is_gone_at_once():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.report("a", {"somebody": [1]}, full=True)
    assert harness.handle(ev.Leave(0, "a", token)) == {"broker": "a"}
    assert states(harness) == {"a": "gone"} and harness.at("somebody") is None


def test_a_report_that_comes_after_its_broker_left_is_refused():
    harness = CoordinatorHarness()
    token = harness.register("a").token
    harness.report("a", full=True)
    harness.handle(ev.Leave(0, "a", token))
    with pytest.raises(Unauthorized):
        harness.report("a", {"somebody": [1]}, full=True)


def test_no_broker_leaves_for_another():
    harness = CoordinatorHarness()
    harness.join("a")
    with pytest.raises(Unauthorized):
        harness.handle(ev.Leave(0, "a", harness.register("b").token))
    assert states(harness)["a"] == "up"


def test_a_broker_that_reports_unevenly_is_waited_for_longer():
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


def test_a_coordinator_whose_ticks_come_late_waits_longer():
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


def test_a_broker_that_is_back_is_not_taken_for_uneven():
    harness = CoordinatorHarness(gone_after=10.0)
    harness.join("a")
    harness.run(20, "a")
    harness.tick(100)
    assert states(harness) == {"a": "gone"}
    harness.report("a", full=True)
    harness.run(3, "a")
    harness.tick(11)
    assert states(harness) == {"a": "gone"}


def test_a_ticket_of_before_the_broker_was_restarted_is_void():
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


def test_a_ticket_of_before_the_coordinator_was_restarted_is_good():
    harness = CoordinatorHarness()
    harness.join("a", incarnation="first")
    ticket = harness.place("subscriber").ticket
    harness.restart()
    door = TicketVerifier("a", lambda: 1e9 + harness.now)
    door.key = bytes.fromhex(harness.register("a", incarnation="first").key)
    assert door.refuses(ticket, "subscriber") is None


def heard(harness: CoordinatorHarness, seconds: int, *brokers: str) -> None:
    """Time in which only these brokers report."""
    for _ in range(seconds):
        harness.tick()
        for broker in brokers:
            harness.report(broker)


def test_nobody_is_sent_to_a_broker_that_has_missed_a_report():
    harness = CoordinatorHarness(interval=1.0, gone_after=10.0, placement="round-robin")
    harness.join("a")
    harness.join("b")
    heard(harness, 5, "a")
    assert {harness.place(f"newcomer-{number}").broker for number in range(4)} == {"a"}
    harness.report("b")
    assert {harness.place(f"latecomer-{number}").broker for number in range(4)} == {"a", "b"}


def test_if_there_is_no_other_broker_one_that_has_missed_a_report_is_tried():
    harness = CoordinatorHarness(interval=1.0, gone_after=10.0)
    harness.join("a")
    harness.tick(5)
    assert harness.place().broker == "a"


def test_nothing_is_planned_with_a_broker_that_may_be_dead():
    harness = lopsided(interval=1.0, gone_after=10.0, balance_every=1.0, strategy="")
    heard(harness, 5, "a")
    harness.handle(ev.Reconfigure(0, "ldm", {}))
    heard(harness, 3, "a")
    assert harness.notes_of("migration") == []
    harness.report("b")
    harness.tick()
    assert harness.notes_of("migration") != []


def test_a_broker_without_an_identity_keeps_its_name() -> None:
    harness = CoordinatorHarness()
    harness.register("north")
    with pytest.raises(Unauthorized):
        harness.register("north", identity="another")
