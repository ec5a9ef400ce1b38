"""Where newcomers are sent, and with what ticket."""

from __future__ import annotations

import pytest
from office import Office, crowd

from tocsin.balancing.placement import PLACEMENTS
from tocsin.coordinator.core.placement import TICKET
from tocsin.errors import Busy, NotFound, UserError
from tocsin.wire.tickets import SKEW


def test_a_newcomer_is_told_broker_address_and_ticket():
    office = Office()
    door = office.wicket("a")
    office.report("a", full=True)
    found = office.place("somebody")
    assert (found.broker, found.url) == ("a", "http://a")
    assert door.refuses(found.ticket, "somebody") is None


def test_a_ticket_is_good_once():
    office = Office()
    door = office.wicket("a")
    office.report("a", full=True)
    ticket = office.place("somebody").ticket
    door.refuses(ticket, "somebody")
    assert door.refuses(ticket, "somebody") == "the ticket was used before"


def test_a_ticket_is_good_at_no_other_broker():
    office = Office()
    office.join("a")
    ticket = office.place("somebody").ticket
    assert office.wicket("b").refuses(ticket, "somebody") == "the signature is wrong"


def test_a_ticket_is_good_for_nobody_else():
    office = Office()
    door = office.wicket("a")
    office.report("a", full=True)
    assert door.refuses(office.place("somebody").ticket, "another-1") == "the ticket is for somebody else"


def test_a_ticket_is_not_good_for_ever():
    office = Office()
    door = office.wicket("a")
    office.report("a", full=True)
    ticket = office.place("somebody").ticket
    office.now += TICKET + SKEW + 1
    assert door.refuses(ticket, "somebody") == "the ticket has expired"


def test_without_brokers_nobody_can_be_placed():
    with pytest.raises(Busy) as refused:
        Office().place()
    assert refused.value.hint == "start a broker"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_nobody_is_placed_at_a_broker_that_is_gone_full_draining_or_new(placement):
    office = Office(placement=placement)
    office.join("gone")
    office.tick(20)
    office.join("full", crowd(2, 1), most=2)
    office.join("draining")
    office.drain("draining")
    office.register("new")
    with pytest.raises(Busy, match="no broker can take anybody"):
        office.place()
    office.join("good")
    assert {office.place().broker for _ in range(20)} == {"good"}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_those_who_were_sent_there_count_before_they_are_reported(placement):
    office = Office(placement=placement)
    office.join("a", most=3)
    for _ in range(3):
        office.place()
    with pytest.raises(Busy):
        office.place()


def test_a_broker_that_did_not_answer_is_avoided():
    office = Office()
    office.join("a")
    office.join("b")
    assert {office.place(avoid=["a"]).broker for _ in range(10)} == {"b"}


def test_a_broker_that_did_not_answer_is_better_than_none():
    office = Office()
    office.join("a")
    assert office.place(avoid=["a"]).broker == "a"


def test_a_broker_that_did_not_answer_is_better_than_one_that_is_full():
    office = Office()
    office.join("a")
    office.join("b", crowd(1, 1), most=1)
    assert office.place(avoid=["a"]).broker == "a"


def test_nearest_is_by_coordinates():
    office = Office(placement="nearest")
    office.join("berlin", lat=52.5, lon=13.4)
    office.join("paris", lat=48.9, lon=2.4)
    assert office.place(lat=50.9, lon=7.0).broker == "paris"


def test_nearest_is_by_round_trips_if_they_were_measured():
    office = Office(placement="nearest")
    office.join("berlin", lat=52.5, lon=13.4)
    office.join("paris", lat=48.9, lon=2.4)
    assert office.place(lat=48.9, lon=2.4, distances={"berlin": 3.0, "paris": 9.0}).broker == "berlin"


def test_least_loaded_looks_at_capacity():
    office = Office(placement="least-loaded")
    office.join("weak", {"one": [1]}, rates={1: 10.0}, capacity=1.0)
    office.join("strong", {"two": [1]}, capacity=4.0)
    assert office.place().broker == "strong"


def test_placements_are_noted():
    office = Office(placement="random")
    office.join("a")
    office.place("somebody")
    (note,) = [note for note in office.notes if note.kind == "placed"]
    assert (note.subscriber, note.target, note.text) == ("somebody", "a", "random")


def test_an_unknown_placement_says_which_there_are():
    with pytest.raises(NotFound) as refused:
        Office(placement="psychic")
    assert "two-choices" in str(refused.value.hint)


def test_an_unknown_strategy_says_which_there_are():
    with pytest.raises(NotFound) as refused:
        Office(strategy="psychic")
    assert "multistage" in str(refused.value.hint)


def test_a_parameter_that_the_strategy_does_not_have_is_refused():
    with pytest.raises(UserError, match="no parameter zeal"):
        Office(strategy="ldm", settings={"zeal": 1.0})
