"""Reports of brokers, and the tables that others make of them."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import B0, B1, filled, overloaded, use

from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.messages import Push
from tocsin.balancing.strategies.tao2013.broker_report import (
    ToCluster,
    ToHead,
    candidate_tables,
    report,
    reported_table,
    values_of,
)
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.metrics import LoadTable, Role


@pytest.mark.parametrize("table", [overloaded(), filled(B0, 3.0), LoadTable(B1, Role.EDGE)])
def test_a_reported_table_has_the_metrics_and_the_influences_of_the_broker(table):
    found = reported_table(values_of(report("b0", table))["b0"])
    assert found is not None and found.metrics == pytest.approx(table.metrics)
    topic = use("77", 50, 8, 200)
    assert found.including(topic).metrics == pytest.approx(table.including(topic).metrics)


def test_only_brokers_in_status_low_are_candidates():
    information = [*report("b0", filled(B0, 3.0)), *report("b1", overloaded())]
    assert list(candidate_tables(information, Thresholds())) == ["b0"]


def test_reports_that_cannot_be_are_no_candidates():
    whole = list(report("b0", filled(B0, 3.0)))
    for position, each in enumerate(whole):
        missing = whole[:position] + whole[position + 1 :]
        if each.criterion != "queue depth":  # without a queue it is a head, whose metrics are all there
            assert candidate_tables(missing, Thresholds()) == {}, each.criterion
        for wrong in (-1.0, float("nan"), float("inf")):
            changed = [*missing, LoadInformation("b0", each.criterion, wrong)]
            assert candidate_tables(changed, Thresholds()).keys() <= (
                {"b0"} if each.criterion == "queue depth" else set()
            )
    nothing = [LoadInformation("b0", each.criterion, 0.0) for each in whole]
    assert candidate_tables(nothing, Thresholds()) == {}


def test_an_edge_pushes_to_its_head_and_in_peer_to_all():
    load = model(overloaded())
    here = scope(load)
    assert list(ToHead().recipients(here)) == ["bh"]
    assert list(ToCluster().recipients(here)) == ["bh", "b0", "b2", "b3"]
    ((to, message),) = ToHead().exchange_load_information(here, ["bh"], ())
    assert to == "bh" and message == Push(report("b1", load.table))
    assert ToHead().reported(here, ()) == report("b1", load.table)
