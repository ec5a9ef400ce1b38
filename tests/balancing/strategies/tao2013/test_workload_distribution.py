"""The three principles of workload distribution."""

from __future__ import annotations

import pytest
from edge_tables import use

from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.balancing.strategies.tao2013.metrics import LoadTable, Role
from tocsin.errors import UserError
from tocsin.simulation.deadlines.setup import STAR, TABLE_V, Setup, paper

EMPTY = {edge: LoadTable(TABLE_V[edge], Role.EDGE) for edge in STAR["bh"]}


def distributed(setup: Setup, distribution: Distribution) -> dict[str, str]:
    edges, found = dict(EMPTY), {}
    for topic in setup.topics:
        arriving = use(topic.name, topic.rate, topic.subscribers, topic.size)
        edge = found[topic.name] = distribution.allocate(arriving, edges) or ""
        edges[edge] = edges[edge].including(arriving)
    return found


def served(found: dict[str, str], edge: str) -> list[str]:
    return [topic for topic, at in found.items() if at == edge]


@pytest.mark.parametrize(
    ("seventh", "reserve"), [("11", 0.5), ("11", 0.25), ("11", 0.84), ("10", 0.5), ("10", 0.47), ("10", 0.84)]
)
def test_b1_serves_the_papers_topics(seventh, reserve):
    setup = paper(seventh)
    assert served(distributed(setup, Distribution(setup.correlated, reserve)), "b1") == ["1", "3", "8", "14"]


@pytest.mark.parametrize(("seventh", "reserve"), [("11", 0.24), ("11", 0.86), ("10", 0.25), ("6", 0.5), ("9", 0.5)])
def test_with_other_values_that_the_paper_does_not_give_it_does_not(seventh, reserve):
    setup = paper(seventh)
    assert served(distributed(setup, Distribution(setup.correlated, reserve)), "b1") != ["1", "3", "8", "14"]


def test_subscribers_of_a_topic_go_where_it_is():
    edges = {**EMPTY, "b2": EMPTY["b2"].including(use("7", 1000, 3, 100))}
    assert Distribution().allocate(use("7", 1000, 1, 100), edges) == "b2"


def test_the_most_free_capacity_is_an_amount_and_not_a_share():
    loaded = {
        **EMPTY,
        "b1": EMPTY["b1"].including(use("1", 50, 8, 200)),
        "b3": EMPTY["b3"].including(use("2", 500, 2, 800)),
    }
    assert Distribution().allocate(use("3", 250, 1, 1000), loaded) == "b1"  # 7.36 of 8 Mbps, and b0 with 6.5 is empty


def test_the_processor_decides_among_equals():
    assert Distribution().allocate(use("1", 50, 8, 200), EMPTY) == "b1"


def test_topics_that_rise_together_are_kept_apart():
    edges = {edge: EMPTY[edge] for edge in ("b1", "b3")}
    first = use("1", 50, 1, 100)
    edges["b1"] = edges["b1"].including(first)
    group = Distribution([frozenset({"1", "2"})], reserve=1.0)
    assert group.allocate(use("2", 500, 2, 200), edges) == "b3"
    assert group.allocate(use("3", 500, 2, 200), {**edges, "b3": edges["b3"].including(use("9", 60, 1, 100))}) == "b1"


def test_an_edge_that_is_not_low_is_used_only_if_none_is():
    full = EMPTY["b1"].including(use("9", 238, 4, 1000))
    assert Distribution().allocate(use("1", 1, 1, 100), {"b1": full, "b2": EMPTY["b2"]}) == "b2"
    assert Distribution().allocate(use("1", 1, 1, 100), {"b1": full}) == "b1"


def test_without_an_edge_there_is_no_place():
    assert Distribution().allocate(use("1", 1, 1, 100), {}) is None


@pytest.mark.parametrize("reserve", [-0.1, float("nan"), float("inf")])
def test_reserves_that_cannot_be(reserve):
    with pytest.raises(UserError, match="reserve"):
        Distribution(reserve=reserve)
