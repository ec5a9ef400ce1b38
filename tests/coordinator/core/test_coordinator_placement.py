"""At which broker a new subscriber is placed, and with what ticket."""

from __future__ import annotations

import msgspec
import pytest
from coordinator_harness import CoordinatorHarness, crowd

from tocsin.balancing.placement import PLACEMENTS
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.placement import TICKET
from tocsin.errors import Busy, NotFound, UserError
from tocsin.wire import reports
from tocsin.wire.tickets import SKEW


def test_a_placement_names_the_broker_its_address_and_a_ticket():
    harness = CoordinatorHarness()
    verifier = harness.verifier("a")
    harness.report("a", full=True)
    found = harness.place("subscriber-1")
    assert (found.broker, found.url) == ("a", "http://a")
    assert verifier.refuses(found.ticket, "subscriber-1") is None


def test_a_broker_accepts_a_ticket_once():
    harness = CoordinatorHarness()
    verifier = harness.verifier("a")
    harness.report("a", full=True)
    ticket = harness.place("subscriber-1").ticket
    verifier.refuses(ticket, "subscriber-1")
    assert verifier.refuses(ticket, "subscriber-1") == "the ticket was used before"


def test_a_ticket_is_valid_only_at_its_broker():
    harness = CoordinatorHarness()
    harness.join("a")
    ticket = harness.place("subscriber-1").ticket
    assert harness.verifier("b").refuses(ticket, "subscriber-1") == "the signature is wrong"


def test_a_ticket_is_valid_only_for_its_subscriber():
    harness = CoordinatorHarness()
    verifier = harness.verifier("a")
    harness.report("a", full=True)
    assert (
        verifier.refuses(harness.place("subscriber-1").ticket, "another-1")
        == "the ticket is for another subscriber or broker"
    )


def test_a_ticket_expires():
    harness = CoordinatorHarness()
    verifier = harness.verifier("a")
    harness.report("a", full=True)
    ticket = harness.place("subscriber-1").ticket
    harness.now += TICKET + SKEW + 1
    assert verifier.refuses(ticket, "subscriber-1") == "the ticket has expired"


def test_without_brokers_a_placement_is_refused():
    with pytest.raises(Busy) as refused:
        CoordinatorHarness().place()
    assert refused.value.hint == "start a broker"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_subscriber_is_placed_at_a_broker_that_is_gone_full_draining_or_new(placement):
    harness = CoordinatorHarness(placement=placement)
    harness.join("gone")
    harness.tick(20)
    harness.join("full", crowd(2, 1), max_subscribers=2)
    harness.join("draining")
    harness.drain("draining")
    harness.register("new")
    with pytest.raises(Busy, match="no broker accepts subscribers"):
        harness.place()
    harness.join("good")
    assert {harness.place().broker for _ in range(20)} == {"good"}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_placed_subscribers_count_before_the_broker_reports_them(placement):
    harness = CoordinatorHarness(placement=placement)
    harness.join("a", max_subscribers=3)
    for _ in range(3):
        harness.place()
    with pytest.raises(Busy):
        harness.place()


def test_placement_avoids_a_broker_that_did_not_answer():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.join("b")
    assert {harness.place(avoid=["a"]).broker for _ in range(10)} == {"b"}


def test_the_only_broker_is_tried_again_if_it_did_not_answer():
    harness = CoordinatorHarness()
    harness.join("a")
    assert harness.place(avoid=["a"]).broker == "a"


def test_placement_prefers_a_broker_that_did_not_answer_to_a_full_one():
    harness = CoordinatorHarness()
    harness.join("a")
    harness.join("b", crowd(1, 1), max_subscribers=1)
    assert harness.place(avoid=["a"]).broker == "a"


def test_nearest_compares_coordinates():
    harness = CoordinatorHarness(placement="nearest")
    harness.join("berlin", lat=52.5, lon=13.4)
    harness.join("paris", lat=48.9, lon=2.4)
    assert harness.place(lat=50.9, lon=7.0).broker == "paris"


def test_nearest_prefers_measured_round_trips_to_coordinates():
    harness = CoordinatorHarness(placement="nearest")
    harness.join("berlin", lat=52.5, lon=13.4)
    harness.join("paris", lat=48.9, lon=2.4)
    assert harness.place(lat=48.9, lon=2.4, distances={"berlin": 3.0, "paris": 9.0}).broker == "berlin"


def test_least_loaded_divides_the_load_by_the_capacity():
    harness = CoordinatorHarness(placement="least-loaded")
    harness.join("weak", {"one": [1]}, rates={1: 10.0}, capacity=1.0)
    harness.join("strong", {"two": [1]}, capacity=4.0)
    assert harness.place().broker == "strong"


def test_placements_are_logged():
    harness = CoordinatorHarness(placement="random")
    harness.join("a")
    harness.place("subscriber-1")
    (note,) = [note for note in harness.notes if note.kind == "placed"]
    assert (note.subscriber, note.target, note.text) == ("subscriber-1", "a", "random")


def test_an_unknown_placement_is_refused_with_the_list_of_known_ones():
    with pytest.raises(NotFound) as refused:
        CoordinatorHarness(placement="psychic")
    assert "two-choices" in str(refused.value.hint)


def test_an_unknown_strategy_is_refused_with_the_list_of_known_ones():
    with pytest.raises(NotFound) as refused:
        CoordinatorHarness(strategy="psychic")
    assert "multistage" in str(refused.value.hint)


def test_a_parameter_unknown_to_the_strategy_is_refused():
    with pytest.raises(UserError, match="no parameter zeal"):
        CoordinatorHarness(strategy="ldm", settings={"zeal": 1.0})


def test_the_nearest_broker_has_the_shortest_round_trip_in_milliseconds():
    harness = CoordinatorHarness(placement="nearest")
    for broker, lat in (("near", 1.0), ("far", 60.0)):
        harness.join(broker, lat=lat, lon=0.0)
    assert harness.place(lat=0.0, lon=0.0, distances={"near": 250.0, "far": 12.5}).broker == "far"
    assert harness.place(lat=0.0, lon=0.0, distances={"elsewhere": 1.0}).broker == "near"


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_a_distance_below_zero_is_refused(wrong):
    body = msgspec.json.encode({"subscriber": "subscriber".ljust(22, "-"), "distances": {"near": wrong}})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=reports.BrokerRequest)


def test_the_broker_list_contains_the_brokers_that_accept_subscribers():
    harness = CoordinatorHarness()
    harness.join("south", lat=1.0, lon=2.0)
    harness.join("north", url="ws://north")
    harness.join("full", {"subscriber-0000": [1]}, max_subscribers=1)
    harness.join("draining")
    harness.drain("draining")
    harness.register("new")
    addresses = [
        reports.BrokerAddress("north", "ws://north"),
        reports.BrokerAddress("south", "http://south", 1.0, 2.0),
    ]
    assert harness.handle(ev.ListBrokers(0)) == reports.BrokerList(addresses)


def test_the_broker_list_omits_brokers_whose_report_is_overdue():
    harness = CoordinatorHarness(interval=2.0, gone_after=10.0)
    harness.join("a")
    harness.join("b")
    harness.run(7, "b")
    assert [each.broker for each in harness.handle(ev.ListBrokers(0)).brokers] == ["b"]


def test_a_flood_of_placements_does_not_fill_the_log():
    harness = CoordinatorHarness(placement="random")
    harness.join("a")
    for n in range(1_000):
        harness.place(f"subscriber-{n}")
    harness.tick()
    notes = [note for note in harness.notes if note.kind == "placed"]
    assert len(notes) == 101 and "900 more subscribers" in notes[-1].text and not notes[-1].subscriber
    for n in range(1_000):
        harness.place(f"subscriber-{n}")
    harness.tick()
    assert len([note for note in harness.notes if note.kind == "placed"]) <= 102
