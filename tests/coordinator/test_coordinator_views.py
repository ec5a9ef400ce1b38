"""What can be looked at: the plan of now, the network, the history of the balance."""

from __future__ import annotations

import pytest
from office import Office, lopsided

STRATEGIES = ["ldm", "sdm", "gsh", "multistage", "peal", "join", ""]


def test_a_plan_says_what_would_be_moved_and_what_comes_of_it():
    plan = lopsided().plan()
    assert plan["strategy"] == "ldm" and len(plan["moves"]) == 5
    assert plan["before"]["maximum"] == 2000.0 and plan["after"]["maximum"] == 1000.0
    assert plan["after"]["cov"] == 0.0 and plan["bound"] == 1000.0
    assert {(move["from"], move["to"]) for move in plan["moves"]} == {("a", "b")}


def test_looking_at_the_plan_moves_nobody():
    office = lopsided()
    assert office.plan() == office.plan()
    assert office.topology()["pending"] == 0 and office.report("a").moves == []


def test_what_is_pending_counts_in_the_plan():
    office = lopsided()
    office.tick(1)
    plan = office.plan()
    assert plan["moves"] == [] and plan["after"]["maximum"] == 1000.0


def test_a_plan_says_why_something_is_refused():
    plan = lopsided(moves=2).plan()
    assert [each["reason"] for each in plan["refused"]] == ["as many moves are pending as may be"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_brokers_there_is_nothing_to_plan(strategy):
    plan = Office(strategy=strategy).plan()
    assert plan["moves"] == [] and plan["before"]["maximum"] == 0.0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_subscribers_there_is_nothing_to_plan(strategy):
    office = Office(strategy=strategy)
    office.join("a")
    office.register("b")
    assert office.plan()["moves"] == []


def test_the_topology_shows_what_a_broker_reported():
    office = Office()
    office.join("a", {"one": [1]}, rates={1: 5.0}, capacity=2.0)
    office.report("a", connections=3, deliveries=4, waiting=5, lagging=6)
    office.tick(2)
    (row,) = office.topology()["brokers"]
    assert row == {
        "name": "a",
        "url": "http://a",
        "state": "up",
        "capacity": 2.0,
        "subscribers": 1,
        "load_in": 5.0,
        "load_out": 5.0,
        "connections": 3,
        "deliveries": 4,
        "waiting": 5,
        "lagging": 6,
        "heard": 2.0,
        "leaving": 0,
    }


def test_the_topology_shows_who_is_leaving():
    office = lopsided(per_second=2.0)
    office.tick(1)
    office.report("a")
    assert {row["name"]: row["leaving"] for row in office.topology()["brokers"]} == {"a": 5, "b": 0}


def test_a_look_at_the_balance_is_kept():
    office = lopsided(balance_every=10.0)
    office.alive(25, "a", "b")
    assert [sample.pending for sample in office.samples] == [5, 5, 5]
    assert office.samples[0].brokers == {"a": (1000.0, 1000.0, 10), "b": (0.0, 0.0, 0)}


def test_every_move_is_noted_with_its_reason():
    office = lopsided()
    office.tick(1)
    assert office.said("move") == ["accepted: LDM: heaviest of the most loaded to the least loaded"] * 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_can_be_named(strategy):
    office = lopsided(strategy=strategy)
    office.tick(1)
    assert office.plan()["strategy"] == strategy
