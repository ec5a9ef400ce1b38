"""Hosts and mediators of heads and edges, driven second by second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.balancing.deadlines.strategies import make, strategy
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.simulation.deadlines.output_queues import Discipline
from tocsin.simulation.deadlines.setup import Setup, Topic, broker, paper
from tocsin.simulation.deadlines.world import Options, World


def options(setup: Setup, name: str = "tao", **more) -> Options:
    return Options(strategy(name), lambda: make(name), Distribution(setup.correlated), **more)


@pytest.fixture(scope="module")
def delayed():
    setup = paper()
    world = World(setup, options(setup, instant=False))
    return world, world.run()


def two_clusters(burst: bool = True) -> Setup:
    """The only edge of the first cluster is overloaded by the burst, and the second cluster is empty."""
    brokers = {"h1": broker(2000, 20), "h2": broker(2000, 20), "e1": broker(1000, 4), "e2": broker(1000, 8)}
    topics = (Topic("1", 1, 4, 5.0, 500, "h1"), Topic("2", 2, 4, 2.0, 600, "h1"))
    chosen = frozenset({"2"}) if burst else frozenset[str]()
    return Setup(brokers, {"h1": ("e1",), "h2": ("e2",)}, topics, chosen, "e1", burst_at=10, seconds=40)


def test_the_same_seed_gives_the_same_run_and_no_subscriber_is_lost_or_at_two_edges():
    setup = replace(paper(), seconds=20)
    first, second = (World(setup, options(setup, "peer"), 3) for _ in range(2))
    assert first.run() == second.run() and first.results.migrations
    clients = sorted(client for edge in first.edges.values() for each in edge.clients.values() for client in each)
    assert clients == sorted(client for topic in setup.topics for client in topic.clients)


def test_with_latencies_the_migration_takes_its_time_which_is_measured(delayed):
    world, results = delayed
    (migration,) = results.migrations
    assert migration.units == ("1",) and migration.time == pytest.approx(34.8)
    assert results.waiting("b1", "8", 69) > 0 == results.waiting("b1", "8", 70) and results.missed == 0
    assert world.edges["b1"].model.cost.mean == pytest.approx(0.2)


def test_every_phase_and_session_has_ended(delayed):
    world, _ = delayed
    assert all(head.mediator.phases == {} for head in world.heads.values())
    assert all(edge.host is not None and len(edge.host.sessions) == 0 for edge in world.edges.values())


def test_what_waits_at_the_old_edge_is_delivered_from_there():
    setup = two_clusters()
    world = World(setup, options(setup))
    world._join(1)
    old, new = world.edges["e1"], world.edges["e2"]
    old.queues.queues["1"].arrive(0.0, 2e6)
    for client in setup.topics[0].clients:
        world._migrate(old, Migrate("e1", "e2", 0.0, "", ("1",)), client)
    assert old.clients == {} and len(new.clients["1"]) == 4
    world._at(0.4)
    assert old.queues.backlog == pytest.approx(2e6 - 0.4 * 4e6)
    world._at(1.0)
    assert old.queues.backlog == 0.0 and old.queues.queues["1"].late == 0.0
    assert new.queues.queues["1"].arrived == pytest.approx(4 * 50)


def test_another_cluster_helps_if_the_own_one_cannot():
    setup = two_clusters()
    results = World(setup, options(setup)).run()
    assert {(each.source, each.target) for each in results.migrations} == {("e1", "e2")}
    assert World(two_clusters(burst=False), options(setup)).run().migrations == []


def test_another_cluster_is_further_away():
    setup = two_clusters()
    world = World(setup, options(setup))
    topic = setup.topics[0]
    assert world.allowed(topic, world.edges["e1"]) == pytest.approx(5.0 - 0.3)
    assert world.allowed(topic, world.edges["e2"]) == pytest.approx(5.0 - 0.4)


def test_an_overloaded_head_gives_publishers_to_another():
    setup = two_clusters()
    brokers = {**setup.brokers, "h1": broker(2000, 2.0)}
    topics = (*setup.topics, Topic("3", 4, 1, 5.0, 900, "h1"))
    crowded = replace(setup, brokers=brokers, topics=topics, burst=frozenset({"3"}), burst_at=10)
    world = World(crowded, options(crowded))
    results = world.run()
    of_heads = [each for each in results.migrations if each.source == "h1"]
    assert of_heads and all(each.target == "h2" for each in of_heads)
    everyone = [each for head in world.heads.values() for names in head.publishers.values() for each in names]
    assert len(everyone) == len(set(everyone)) == sum(topic.publishers for topic in topics)
    assert world.heads["h1"].model.table.metric("downlink") <= 0.95


def test_without_a_strategy_nothing_migrates_and_deadlines_are_missed():
    setup = paper()
    results = World(setup, replace(options(setup), composition=None)).run()
    assert results.migrations == [] and {topic for topic, late in results.late.items() if late} == {"8"}


def test_our_own_strategy_needs_no_migration_where_loose_topics_can_wait():
    setup = paper()
    results = World(setup, options(setup, "slack", discipline=Discipline.EARLIEST)).run()
    assert results.since(30) == [] and results.missed == 0.0
