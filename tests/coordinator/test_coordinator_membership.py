"""Brokers come, go, are drained and forgotten."""

from __future__ import annotations

import pytest
from office import Office, lopsided

from tocsin.coordinator.core import events as ev
from tocsin.errors import Busy, NotFound, Unauthorized
from tocsin.wire.tickets import TicketVerifier, key_for


def states(office):
    return {each["name"]: each["state"] for each in office.topology()["brokers"]}


def test_a_broker_is_up_from_its_first_full_report_on():
    office = Office()
    office.register("a")
    assert states(office) == {"a": "gone"}
    office.report("a", full=True)
    assert states(office) == {"a": "up"}


def test_who_registers_gets_the_key_of_its_own_tickets():
    office = Office(interval=3.0)
    found = office.register("a")
    assert found.key == key_for(b"s" * 32, "a").hex() and found.interval == 3.0


def test_a_broker_without_the_secret_is_refused():
    with pytest.raises(Unauthorized):
        Office(secret="right").register("a", secret="wrong")


def test_a_secret_may_have_any_letters():
    with pytest.raises(Unauthorized):
        Office(secret="straße").register("a", secret="köln")
    assert Office(secret="straße").register("a", secret="straße").broker == "a"


def test_a_name_belongs_to_who_registered_it_first():
    office = Office()
    office.register("a", identity="first")
    with pytest.raises(Unauthorized, match="another broker is registered"):
        office.register("a", identity="second")


def test_a_name_belongs_to_its_broker_after_a_restart_of_the_coordinator_too():
    office = Office()
    office.register("a", identity="first")
    office.restart()
    with pytest.raises(Unauthorized):
        office.register("a", identity="second")


def test_a_registration_is_kept():
    office = Office()
    office.register("a", capacity=2.0, most=7, lat=1.0, lon=2.0)
    row = office.kept["a"]
    assert (row.url, row.capacity, row.most, row.lat, row.lon, row.draining) == ("http://a", 2.0, 7, 1.0, 2.0, False)


def test_a_registration_is_kept_again_if_the_first_time_failed():
    office = Office()
    office.register("a")
    office.kept.clear()
    office.register("a")
    assert "a" in office.kept


def test_a_broker_that_is_not_heard_is_gone():
    office = Office(gone_after=10.0)
    office.join("a", {"somebody": [1]})
    office.tick(10)
    assert states(office) == {"a": "up"}
    office.tick(1)
    assert states(office) == {"a": "gone"}
    assert office.said("died") == ["a was not heard for 11 s; of its 1 subscribers 0 are back elsewhere already"]


def test_registering_again_and_again_is_no_sign_of_life():
    office = Office(gone_after=10.0)
    office.join("a")
    for _ in range(6):
        office.register("a")
        office.tick(2)
    assert states(office) == {"a": "gone"}


def test_subscribers_of_a_dead_broker_are_forgotten():
    office = Office()
    office.join("a", {"somebody": [1]})
    office.tick(20)
    assert office.topology()["subscribers"] == 0


def test_a_broker_comes_back():
    office = Office()
    office.join("a")
    office.tick(20)
    office.join("a", {"somebody": [1]})
    assert states(office) == {"a": "up"} and office.at("somebody") == "a"
    assert office.said("joined") == ["a at http://a"] and office.said("returned") == ["a at http://a"]


def test_after_a_restart_of_the_coordinator_brokers_return():
    office = Office()
    office.join("a")
    office.restart()
    assert states(office) == {"a": "gone"}
    office.join("a")
    assert office.said("returned") == ["a at http://a"]


def test_a_coordinator_that_slept_does_not_bury_its_brokers():
    office = Office(gone_after=10.0)
    office.join("a")
    office.tick(1)
    office.now += 3600
    office.tell(ev.Tick())
    assert states(office) == {"a": "up"}


def test_a_clock_that_jumps_back_changes_nothing():
    office = Office()
    office.join("a")
    office.now -= 500
    office.tick(1)
    assert states(office) == {"a": "up"}


def test_draining_is_kept_over_a_restart_of_both():
    office = Office()
    office.join("a")
    assert office.drain("a") == {"broker": "a", "state": "draining"}
    office.restart()
    office.join("a")
    assert states(office) == {"a": "draining"}


def test_undrained_it_is_up():
    office = Office()
    office.join("a")
    office.drain("a")
    assert office.drain("a", undo=True) == {"broker": "a", "state": "up"}
    assert not office.kept["a"].draining


def test_draining_keeps_whose_name_it_is():
    office = Office()
    office.register("a", identity="first")
    office.drain("a")
    with pytest.raises(Unauthorized):
        office.register("a", identity="second")


def test_a_broker_nobody_knows_cannot_be_drained():
    office = Office()
    office.join("a")
    with pytest.raises(NotFound, match="zebra") as refused:
        office.drain("zebra")
    assert refused.value.hint == "there are: a"


def test_a_broker_that_is_alive_is_not_forgotten():
    office = Office()
    office.join("a")
    with pytest.raises(Busy):
        office.tell(ev.Forget(0, "a"))


def test_a_broker_that_is_gone_can_be_forgotten():
    office = Office()
    office.join("a")
    office.tick(20)
    office.tell(ev.Forget(0, "a"))
    assert states(office) == {} and office.kept == {}


def test_the_place_of_a_forgotten_broker_is_given_again():
    office = Office()
    for name in "abcdef":
        office.join(name)
        office.tick(20)
        office.tell(ev.Forget(0, name))
    office.join("g")
    assert office.state.load.m == 1


def test_a_forgotten_broker_has_to_register_again():
    office = Office()
    office.join("a")
    office.tick(20)
    office.tell(ev.Forget(0, "a"))
    with pytest.raises(Unauthorized):
        office.report("a")


def test_a_broker_that_leaves_is_gone_at_once():
    office = Office()
    token = office.register("a").token
    office.report("a", {"somebody": [1]}, full=True)
    assert office.tell(ev.Leave(0, "a", token)) == {"broker": "a"}
    assert states(office) == {"a": "gone"} and office.at("somebody") is None


def test_a_report_that_comes_after_its_broker_left_is_refused():
    office = Office()
    token = office.register("a").token
    office.report("a", full=True)
    office.tell(ev.Leave(0, "a", token))
    with pytest.raises(Unauthorized):
        office.report("a", {"somebody": [1]}, full=True)


def test_no_broker_leaves_for_another():
    office = Office()
    office.join("a")
    with pytest.raises(Unauthorized):
        office.tell(ev.Leave(0, "a", office.register("b").token))
    assert states(office)["a"] == "up"


def test_a_broker_that_reports_unevenly_is_waited_for_longer():
    office = Office(gone_after=10.0)
    office.join("even")
    office.join("uneven")
    for second in range(60):
        office.tick(1)
        office.report("even")
        if second % 9 == 0 or second % 9 == 1:
            office.report("uneven")
    office.tick(13)
    assert states(office) == {"even": "gone", "uneven": "up"}
    office.tick(20)
    assert states(office)["uneven"] == "gone", "but not for ever: three times as long at most"


def test_a_coordinator_whose_ticks_come_late_waits_longer():
    office = Office(gone_after=3.0)
    office.join("a")
    for _ in range(10):
        office.now += 2.4
        office.tell(ev.Tick())
        office.report("a")
    office.tick(3.2)
    assert states(office) == {"a": "up"}
    office.alive(20, "a")
    office.tick(4)
    assert states(office) == {"a": "gone"}


def test_a_broker_that_is_back_is_not_taken_for_uneven():
    office = Office(gone_after=10.0)
    office.join("a")
    office.alive(20, "a")
    office.tick(100)
    assert states(office) == {"a": "gone"}
    office.report("a", full=True)
    office.alive(3, "a")
    office.tick(11)
    assert states(office) == {"a": "gone"}


def test_a_ticket_of_before_the_broker_was_restarted_is_void():
    office = Office()
    office.join("a", boot="first")
    ticket = office.place("subscriber").ticket
    first, second = (TicketVerifier("a", lambda: 1e9 + office.now) for _ in range(2))
    first.key = bytes.fromhex(office.register("a", boot="first").key)
    assert first.refuses(ticket, "subscriber") is None
    second.key = bytes.fromhex(office.register("a", boot="second").key)
    assert second.refuses(ticket, "subscriber") == "the signature is wrong"
    office.report("a", full=True)
    assert second.refuses(office.place("subscriber").ticket, "subscriber") is None


def test_a_ticket_of_before_the_coordinator_was_restarted_is_good():
    office = Office()
    office.join("a", boot="first")
    ticket = office.place("subscriber").ticket
    office.restart()
    door = TicketVerifier("a", lambda: 1e9 + office.now)
    door.key = bytes.fromhex(office.register("a", boot="first").key)
    assert door.refuses(ticket, "subscriber") is None


def heard(office: Office, seconds: int, *brokers: str) -> None:
    """Time in which only these brokers report."""
    for _ in range(seconds):
        office.tick()
        for broker in brokers:
            office.report(broker)


def test_nobody_is_sent_to_a_broker_that_has_missed_a_report():
    office = Office(interval=1.0, gone_after=10.0, placement="round-robin")
    office.join("a")
    office.join("b")
    heard(office, 5, "a")
    assert {office.place(f"newcomer-{number}").broker for number in range(4)} == {"a"}
    office.report("b")
    assert {office.place(f"latecomer-{number}").broker for number in range(4)} == {"a", "b"}


def test_if_there_is_no_other_broker_one_that_has_missed_a_report_is_tried():
    office = Office(interval=1.0, gone_after=10.0)
    office.join("a")
    office.tick(5)
    assert office.place().broker == "a"


def test_nothing_is_planned_with_a_broker_that_may_be_dead():
    office = lopsided(interval=1.0, gone_after=10.0, balance_every=1.0, strategy="")
    heard(office, 5, "a")
    office.tell(ev.Switch(0, "ldm", {}))
    heard(office, 3, "a")
    assert office.said("move") == []
    office.report("b")
    office.tick()
    assert office.said("move") != []
