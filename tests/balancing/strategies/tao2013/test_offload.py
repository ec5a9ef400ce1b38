"""The three steps: ask the head, select bundles, one migration for each acceptor."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import B0, B1, filled, of_origin, overloaded, use

from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.strategies.tao2013.broker_report import report
from tocsin.balancing.strategies.tao2013.dynamic_threshold import DynamicThreshold
from tocsin.balancing.strategies.tao2013.mediator import DOMAINS
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, QUEUE, UPLINK, LoadTable, Origin, Resources, Role
from tocsin.balancing.strategies.tao2013.offload import EVERYWHERE, LOCAL, Offload, other_heads
from tocsin.balancing.strategies.tao2013.static_threshold import StaticThreshold

HEAVY = LoadState.OVERLOADED
EVERY_CLUSTER = LoadInformation("bh", DOMAINS, 0.0)


def edge(resources: Resources, megabits: float) -> LoadTable:
    """With little input: its topic has four subscribers."""
    return LoadTable.of(resources, Role.EDGE, [use("99", megabits * 1e6 / 8 / 1000 / 4, 4, 1000)])


def selected(offload: Offload, here, criterion: str = QUEUE) -> list:
    target = offload.select_target(here, criterion, HEAVY)
    if target is None or isinstance(target, Ask):
        return []
    load = offload.select_load_to_move(here, criterion, HEAVY, target)
    return list(offload.rebalance(here, criterion, HEAVY, target, load))


def test_it_first_asks_the_head_for_its_own_cluster():
    offload = Offload(DynamicThreshold())
    ask = offload.select_target(scope(model(overloaded())), QUEUE, HEAVY)
    assert isinstance(ask, Ask) and (ask.recipient, ask.ttl) == ("bh", LOCAL)
    assert offload.select_target(scope(model(overloaded())), QUEUE, LoadState.UNDERLOADED) is None


def test_topic_1_goes_to_b0_as_in_the_paper():
    b2 = Resources(5e6, 5e6, 1300)
    answer = [*report("b0", edge(B0, 5.84)), *report("b2", edge(b2, 4.0)), *report("b3", edge(B1, 7.76))]
    (action,) = selected(Offload(DynamicThreshold()), scope(model(overloaded()), answer))
    assert (action.source, action.target, action.units) == ("b1", "b0", ("1",))


def test_it_ends_as_soon_as_the_broker_is_not_overloaded():
    answer = report("b0", LoadTable(B1, Role.EDGE))
    (action,) = selected(Offload(DynamicThreshold()), scope(model(overloaded()), answer))
    assert action.units == ("14",)  # has the highest priority, and is enough


def test_other_clusters_are_asked_if_the_own_one_is_not_enough():
    offload = Offload(DynamicThreshold())
    for answer in ([], report("b0", edge(B0, 6.4))):
        ask = offload.select_target(scope(model(overloaded()), answer), QUEUE, HEAVY)
        assert isinstance(ask, Ask) and (ask.recipient, ask.ttl) == ("bh", EVERYWHERE)
    assert offload.select_target(scope(model(overloaded()), [EVERY_CLUSTER]), QUEUE, HEAVY) is None


def test_a_bundle_is_split_only_if_none_fits():
    answer = [*report("b0", edge(B0, 5.84)), EVERY_CLUSTER]
    table = overloaded().without(["1", "3"])
    crowded = table.including(use("15", 100, 20, 300, allowed=9.0))
    (action,) = selected(Offload(DynamicThreshold()), scope(model(crowded), answer))
    assert all("/" in unit for unit in action.units)
    (whole,) = selected(Offload(DynamicThreshold()), scope(model(overloaded()), answer))
    assert whole.units == ("1",)


def test_the_acceptor_with_the_lowest_value_of_the_overloaded_metric_is_first():
    full = LoadTable.of(B1, Role.EDGE, [use("7", 950, 1, 1000), use("6", 10, 1, 100)])
    answer = [*report("b0", filled(B1, 3.0)), *report("b2", filled(B1, 2.0)), *report("b3", filled(B1, 2.5))]
    (action,) = selected(Offload(StaticThreshold()), scope(model(full), answer), DOWNLINK)
    assert action.target == "b2"


def test_a_head_asks_all_other_heads_at_once_and_gives_publishers_away():
    busy = LoadTable.of(
        Resources(1e6, 1e6),
        Role.HEAD,
        [of_origin("a", Origin.NONE), use("b", 900, 3, 100), use("c", 300, 1, 100)],
    )
    offload, load = Offload(StaticThreshold(), other_heads), model(busy, "h1")
    ask = offload.select_target(scope(load, neighbours=("h2", "h3")), DOWNLINK, HEAVY)
    assert isinstance(ask, Ask) and (ask.recipient, ask.also) == ("h2", ("h3",))
    idle = report("h2", LoadTable(Resources(1e6, 1e6), Role.HEAD))
    (action,) = selected(offload, scope(load, idle, ("h2", "h3")), DOWNLINK)
    assert action.units == ("a", "c") and action.target == "h2"  # b does not fit
    (action,) = selected(offload, scope(load, idle, ("h2", "h3")), UPLINK)
    assert action.units == ("c", "a")  # publishers without subscribers are the last where the uplink is overloaded


@pytest.mark.parametrize(
    "answer", [[], [LoadInformation("b0", "nonsense", 1.0)], report("b1", LoadTable(B1, Role.EDGE))]
)
def test_answers_that_help_no_one_move_nothing(answer):
    assert selected(Offload(DynamicThreshold()), scope(model(overloaded()), [*answer, EVERY_CLUSTER])) == []
