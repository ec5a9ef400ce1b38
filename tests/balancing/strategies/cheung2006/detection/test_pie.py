"""T16, T18 to T21: what is published, and what is kept."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries, Pie, Publisher
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

OK, BUSY, NA, STABILIZING = Status.OK, Status.BUSY, Status.UNAVAILABLE, Status.STABILIZING
BEFORE = Indices(0.5, 0.3, 0.02)


def pie(status=OK, indices=BEFORE, broker="B1", cluster="C1") -> Pie:
    return Pie(broker, cluster, status, indices)


def publisher(status=OK) -> Publisher:
    found = Publisher(Parameters(), 30.0)
    assert found.publishes(pie(status), 0.0)
    return found


@pytest.mark.parametrize("moved", [Indices(0.53, 0.3, 0.02), Indices(0.5, 0.27, 0.02), Indices(0.5, 0.3, 0.023)])
def test_an_index_beyond_its_threshold_is_published(moved):
    assert publisher().publishes(pie(indices=moved), 30.0)


def test_unchanged_load_is_not_published_before_every_other_period():
    found = publisher()
    assert not found.publishes(pie(indices=Indices(0.52, 0.32, 0.022)), 30.0)
    assert found.publishes(pie(), 60.0)


@pytest.mark.parametrize("status", [NA, BUSY, STABILIZING])
def test_an_unchanged_status_other_than_ok_publishes_nothing(status):
    found = publisher(status)
    assert not found.publishes(pie(status, Indices(0.9, 0.9, 0.09)), 300.0)


@pytest.mark.parametrize(("before", "after"), [(OK, NA), (NA, OK), (OK, BUSY), (BUSY, STABILIZING), (NA, STABILIZING)])
def test_a_changed_status_is_published(before, after):
    assert publisher(before).publishes(pie(after), 30.0)


def test_entries_are_kept_for_three_periods():
    known = Entries(30.0)
    known.register(pie(), 0.0)
    known.expire(89.0)
    assert "B1" in known
    known.expire(90.0)
    assert len(known) == 0


def test_a_newer_pie_replaces_the_entry():
    known = Entries(30.0)
    known.register(pie(NA), 0.0)
    assert known.unavailable()
    known.register(pie(OK), 10.0)
    assert not known.unavailable() and [each.status for each in known] == [OK]


def test_a_broker_or_a_cluster_can_be_forgotten():
    known = Entries(30.0)
    for broker, cluster in (("B1", "C1"), ("B2", "C1"), ("B3", "C2")):
        known.register(pie(broker=broker, cluster=cluster), 0.0)
    known.forget("B1")
    known.forget_cluster("C2")
    assert [each.broker for each in known] == ["B2"]
