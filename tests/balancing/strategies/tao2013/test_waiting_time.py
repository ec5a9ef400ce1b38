"""How long a message may wait: the paper's terms."""

from __future__ import annotations

import pytest
from edge_tables import B1

from tocsin.balancing.strategies.tao2013.waiting_time import BrokerTime, Path, allowed_waiting


def test_the_papers_example():
    assert allowed_waiting(1.8, [Path(head_edge=0.1, edge_subscriber=0.2)]) == pytest.approx(1.5)


def test_the_slowest_publisher_counts():
    near, far = Path(0.1, 0.0, 0.1, 0.2), Path(0.1, 0.3, 0.1, 0.2)
    assert far.transmission == pytest.approx(0.7)
    assert allowed_waiting(2.0, [near, far]) == pytest.approx(1.3)


def test_times_in_brokers_count():
    edge = BrokerTime.of(B1, 400, subscriptions=19, waiting=5.0)
    assert edge.arrival == edge.departure == pytest.approx(400 * 8 / 8e6)
    assert edge.matching == pytest.approx(0.017 * 19 / 1500)
    head = Path(head=BrokerTime(waiting=0.1), remote_head=BrokerTime(matching=0.2))
    left = allowed_waiting(1.0, [head], edge)
    assert left == pytest.approx(1.0 - 0.1 - 0.2 - edge.arrival - edge.matching - edge.departure)


def test_a_requirement_that_cannot_be_met_leaves_less_than_nothing():
    assert allowed_waiting(0.2, [Path(head_edge=0.1, edge_subscriber=0.2)]) < 0


def test_without_publishers_all_of_it_is_left():
    assert allowed_waiting(1.0, []) == 1.0
