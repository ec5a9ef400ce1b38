"""Equations (1) and (2), and the measured time of a balancing."""

from __future__ import annotations

import pytest
from edge_tables import overloaded

from tocsin.balancing.strategies.tao2013.balancing_cost import BalancingCost
from tocsin.balancing.strategies.tao2013.dynamic_threshold import late_topics, queue_threshold, waiting_groups


def test_the_threshold_of_topic_8():
    assert queue_threshold(0.8, 0.2, 1400, 1225) == pytest.approx(0.6 * 1225 - 175)


@pytest.mark.parametrize(("second", "late"), [(31, False), (32, False), (33, False), (34, True), (35, True)])
def test_topic_8_passes_it_at_34_s(second, late):
    found = late_topics(overloaded(175.0 * (second - 30)), cost=0.2)
    assert found == (frozenset({"8"}) if late else frozenset())


@pytest.mark.parametrize(("cost", "first"), [(0.0, 35), (0.08, 35), (0.09, 34), (0.22, 34), (0.23, 33), (0.3, 33)])
def test_when_it_passes_depends_on_the_time_of_a_balancing(cost, first):
    seconds = [second for second in range(31, 40) if late_topics(overloaded(175.0 * (second - 30)), cost)]
    assert seconds[0] == first


def test_without_topic_1_it_is_below_again():
    assert not late_topics(overloaded(700).without(["1"]), cost=0.2)


def test_an_empty_queue_is_never_late_even_if_nothing_may_wait():
    assert not late_topics(overloaded(0.0), cost=10.0)


def test_the_three_groups_of_table_iv():
    table = overloaded(700)
    assert waiting_groups(table, {"8"}) == {"1": 0, "3": 0, "8": 2, "14": 0}
    assert waiting_groups(table, ())["8"] == 1


def test_the_time_of_a_balancing_is_the_mean_of_those_measured():
    cost = BalancingCost(0.2)
    assert cost.mean == 0.2
    cost.add(0.4)
    cost.add(0.8)
    assert cost.mean == pytest.approx(0.6)
