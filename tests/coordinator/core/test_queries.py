"""Queries: the current plan, the topology, the history of the balance."""

from __future__ import annotations

import pytest
from coordinator_harness import CoordinatorHarness, lopsided

STRATEGIES = ["ldm", "sdm", "gsh", "multistage", "peal", "join", ""]


def test_a_plan_shows_its_migrations_and_the_load_after_them():
    plan = lopsided().plan()
    assert plan["strategy"] == "ldm" and len(plan["migrations"]) == 5
    assert plan["before"]["maximum"] == 2000.0 and plan["after"]["maximum"] == 1000.0
    assert plan["after"]["cov"] == 0.0 and plan["bound"] == 1000.0
    assert {(each["from"], each["to"]) for each in plan["migrations"]} == {("a", "b")}


def test_showing_the_plan_starts_no_migration():
    harness = lopsided()
    assert harness.plan() == harness.plan()
    assert harness.topology()["pending"] == 0 and harness.report("a").migrations == []


def test_a_plan_counts_pending_migrations_as_done():
    harness = lopsided()
    harness.tick(1)
    plan = harness.plan()
    assert plan["migrations"] == [] and plan["after"]["maximum"] == 1000.0


def test_a_plan_shows_why_a_migration_is_refused():
    plan = lopsided(in_flight=2).plan()
    assert [each["reason"] for each in plan["refused"]] == ["the maximum of migrations is in flight"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_without_brokers_is_empty(strategy):
    plan = CoordinatorHarness(strategy=strategy).plan()
    assert plan["migrations"] == [] and plan["before"]["maximum"] == 0.0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_without_subscribers_is_empty(strategy):
    harness = CoordinatorHarness(strategy=strategy)
    harness.join("a")
    harness.register("b")
    assert harness.plan()["migrations"] == []


def test_the_topology_shows_what_a_broker_reported():
    harness = CoordinatorHarness()
    harness.join("a", {"one": [1]}, rates={1: 5.0}, capacity=2.0)
    overlay = {"role": "edge", "links": {"b": (7, 8)}}
    harness.report("a", connections=3, deliveries=4, waiting=5, lagging=6, **overlay)
    harness.tick(2)
    (row,) = harness.topology()["brokers"]
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
        "role": "edge",
        "links": {"b": (7, 8)},
        "last_report": 2.0,
        "leaving": 0,
    }


def test_the_topology_shows_how_many_subscribers_are_leaving():
    harness = lopsided(per_second=2.0)
    harness.tick(1)
    harness.report("a")
    assert {row["name"]: row["leaving"] for row in harness.topology()["brokers"]} == {"a": 5, "b": 0}


def test_every_evaluation_is_sampled():
    harness = lopsided(balance_every=10.0)
    harness.run(25, "a", "b")
    assert [sample.pending for sample in harness.samples] == [5, 5, 5]
    assert harness.samples[0].brokers == {"a": (1000.0, 1000.0, 10), "b": (0.0, 0.0, 0)}


def test_every_migration_is_logged_with_its_reason():
    harness = lopsided()
    harness.tick(1)
    assert harness.notes_of("migration") == ["accepted: LDM: heaviest of the most loaded to the least loaded"] * 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_names_its_strategy(strategy):
    harness = lopsided(strategy=strategy)
    harness.tick(1)
    assert harness.plan()["strategy"] == strategy
