"""Tables I and II, and the use of each client."""

from __future__ import annotations

import pytest
from edge_tables import B1, overloaded, use

from tocsin.balancing.strategies.tao2013.metrics import (
    DOWNLINK,
    MATCHING,
    MATCHING_COST,
    METRICS,
    QUEUE,
    UPLINK,
    LoadTable,
    Role,
)


def test_an_edge_has_the_metrics_of_table_ii_and_a_head_those_of_table_i():
    assert set(METRICS[Role.EDGE]) == {DOWNLINK, MATCHING, UPLINK, QUEUE}
    assert set(METRICS[Role.HEAD]) == {DOWNLINK, UPLINK}


def test_the_metrics_of_the_papers_broker_after_the_burst():
    metrics = overloaded().metrics
    assert metrics[UPLINK] == pytest.approx(8.56 / 8)
    assert metrics[DOWNLINK] == pytest.approx((0.08 + 2.0 + 0.64 + 0.48) / 8)
    assert metrics[QUEUE] == 700
    assert metrics[MATCHING] == pytest.approx(700 * MATCHING_COST * 19 / 1500)


def test_the_uplink_use_of_a_client_is_its_output_over_the_bandwidth():
    table = overloaded()
    assert table.share("8", UPLINK) == pytest.approx(4.48 / 8)
    assert table.share("8/3", UPLINK) == pytest.approx(4.48 / 7 / 8)
    assert table.share("8/3", DOWNLINK) == 0.0  # the others of its topic still need the messages


def test_a_topic_leaves_with_its_last_client():
    table = LoadTable.of(B1, Role.EDGE, [use("1", 50, 2, 200)])
    half = table.without(["1/0"])
    assert half.uses["1"].clients == ("1/1",) and half.metric(UPLINK) == pytest.approx(table.metric(UPLINK) / 2)
    assert not half.without(["1/1"]).uses and not table.without(["1"]).uses


def test_what_is_not_there_cannot_leave():
    table = overloaded()
    assert table.without(["7", "8/70"]).metrics == table.metrics
    assert table.part("7") is None and table.part("8/70") is None


def test_clients_of_a_topic_that_is_there_add_no_input():
    table = LoadTable.of(B1, Role.EDGE, [use("1", 50, 2, 200)])
    more = table.including(use("2", 50, 1, 200)).including(table.without(["1/0"]).uses["1"])
    assert more.metric(DOWNLINK) == pytest.approx(2 * table.metric(DOWNLINK))


def test_a_publisher_takes_its_own_messages_along():
    head = LoadTable.of(B1, Role.HEAD, [use("1", 100, 2, 200)])
    assert head.without(["1/0"]).metric(DOWNLINK) == pytest.approx(head.metric(DOWNLINK) / 2)


def test_what_waits_stays_where_it_is():
    moved = overloaded().uses["8"]
    assert LoadTable(B1, Role.EDGE).including(moved).metric(QUEUE) == 0


def test_an_unknown_metric_is_an_error():
    with pytest.raises(KeyError):
        overloaded().metric("temperature")
