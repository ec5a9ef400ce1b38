"""T56 to T61: whole runs of edges and heads."""

from __future__ import annotations

import pytest

from tocsin.errors import UserError
from tocsin.simulation.edges.broker import SYSTEM, Specification
from tocsin.simulation.edges.topology import Cluster, Topology, chain, global_chain, global_star, identical_edges, local
from tocsin.simulation.edges.workload import Size, generate
from tocsin.simulation.edges.world import Settings, World, simulate

SMALL = Size(publishers=10, subscribers=300, seconds=600.0, change_at=500.0, join_until=200.0)


def slow(count: int, first: int = 1) -> list[Specification]:
    return [Specification(f"B{first}{number}", 20.0 * number, 64, 0.2 * number) for number in range(1, count + 1)]


def one_cluster() -> Topology:
    return Topology([Cluster(Specification("B10", 2000, 32, 10), slow(3))], {})


def two_clusters() -> Topology:
    heads = [Specification(f"B{number}0", 2000, 32, 10) for number in (1, 2)]
    return chain([Cluster(heads[0], slow(1)), Cluster(heads[1], slow(2, 2))])


@pytest.fixture(scope="module")
def world():
    found = World(Settings(one_cluster()), generate(SMALL, 1), 1)
    found.run()
    return found


def test_every_subscriber_is_at_one_edge(world):
    names = [name for broker in world.brokers.values() for each in broker.subscribers().values() for name in each]
    assert sorted(names) == sorted(each.name for each in world.workload.subscribers)
    assert sum(broker.total for broker in world.brokers.values()) == 300 + 3 * SYSTEM


def test_edges_share_the_load(world):
    records = world.records
    assert records.sessions and sum(each.moved for each in records.sessions) > 50
    final = [records.series["input"][edge][-1] for edge in records.edges]
    assert max(final) - min(final) < 0.2
    alone = simulate(Settings(one_cluster(), balancing=False), world.workload, 1)
    assert alone.series["input"]["B11"][-1] > 2 * max(final)


def test_what_is_recorded_is_complete(world):
    records = world.records
    assert len(records.times) == 60 == len(records.delivery) == len(records.overhead)
    assert records.table("input").shape == (3, 60)
    assert all(0.0 <= each <= 1.0 for each in records.overhead)
    assert {each.source for each in records.sessions} <= set(records.edges)
    assert records.estimates and {each.offloading for each in records.estimates} == {True, False}


def test_the_same_seed_gives_the_same_run(world):
    again = simulate(Settings(one_cluster()), world.workload, 1)
    assert again.sessions == world.records.sessions and again.series == world.records.series


def test_clusters_balance_with_each_other():
    found = World(Settings(two_clusters()), generate(SMALL, 1), 1)
    records = found.run()
    assert records.cluster_sessions and {each.source for each in records.cluster_sessions} <= {"B10", "B20"}
    assert found.brokers["B21"].subscribed + found.brokers["B22"].subscribed > 50
    assert sum(broker.subscribed for broker in found.brokers.values()) == 300


def test_the_rates_of_half_the_publishers_double():
    records = simulate(Settings(one_cluster(), balancing=False), generate(SMALL, 1), 1)
    rates = [records.series["input"]["B11"][place] for place in (48, 58)]
    assert 1.2 < rates[1] / rates[0] < 1.8


def test_the_tables_of_the_thesis():
    assert [(each.cpu, each.memory, each.bandwidth) for each in local().clusters[0].edges] == [
        (100, 16, 0.5),
        (200, 16, 1),
        (400, 32, 2),
        (1000, 32, 5),
    ]
    assert len(global_chain().clusters) == 4 and global_chain().links["B20"] == ["B10", "B30"]
    assert global_star().links["B10"] == ["B20", "B30", "B40"]
    assert len(identical_edges(7).clusters[0].edges) == 7


@pytest.mark.parametrize(
    "clusters",
    [[], [Cluster(Specification("B0", 1, 1, 1), [])], [Cluster(Specification("B1", 1, 1, 1), slow(1))] * 2],
    ids=["no cluster", "no edge", "a name twice"],
)
def test_a_topology_that_cannot_be_is_refused(clusters):
    with pytest.raises(UserError):
        Topology(clusters, {})


def test_heads_that_are_not_connected_are_refused():
    heads = [Specification(f"B{number}0", 2000, 32, 10) for number in (1, 2)]
    with pytest.raises(UserError, match="B20 cannot be reached"):
        Topology([Cluster(heads[0], slow(1)), Cluster(heads[1], slow(1, 2))], {})
