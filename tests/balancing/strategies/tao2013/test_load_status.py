"""Table III, the thresholds and their exceptions."""

from __future__ import annotations

import pytest
from edge_tables import B0, B1, filled, overloaded, use

from tocsin.balancing.strategies.tao2013.load_status import Status, Thresholds
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, MATCHING, QUEUE, UPLINK, LoadTable, Role
from tocsin.errors import UserError

TAO, PEER = Thresholds(), Thresholds(static_uplink=True)


@pytest.mark.parametrize(
    ("megabits", "tao", "peer"),
    [
        (7.1, Status.LOW, Status.LOW),
        (7.2, Status.HIGH, Status.HIGH),  # not below .9
        (7.5, Status.HIGH, Status.HIGH),
        (7.7, Status.HIGH, Status.OVERLOAD),  # the uplink has only the lower one
    ],
)
def test_the_status_by_uplink(megabits, tao, peer):
    table = LoadTable.of(B1, Role.EDGE, [use("9", megabits * 1e6 / 8 / 1000 / 4, 4, 1000)])
    assert (TAO.status(table), PEER.status(table)) == (tao, peer)


def test_a_downlink_above_the_upper_threshold_is_overload():
    assert TAO.status(filled(B1, 7.7)) is Status.OVERLOAD


def test_a_late_queue_is_overload_whatever_the_rest():
    assert TAO.status(overloaded()) is Status.HIGH and TAO.status(overloaded(), late=True) is Status.OVERLOAD


def test_the_exceptions_of_edges():
    assert [TAO.upper(Role.EDGE, name) for name in (DOWNLINK, MATCHING, UPLINK, QUEUE)] == [0.95, 0.95, None, None]
    assert [TAO.lower(Role.EDGE, name) for name in (DOWNLINK, MATCHING, UPLINK, QUEUE)] == [0.9, 0.9, 0.9, None]
    assert [TAO.upper(Role.HEAD, name) for name in (DOWNLINK, UPLINK)] == [0.95, 0.95]


def test_an_acceptor_is_low_before_and_not_overloaded_after():
    topic1, topic14 = overloaded().uses["1"], overloaded().uses["14"]
    b0 = LoadTable.of(B0, Role.EDGE, [use("9", 5.84e6 / 8 / 1000 / 4, 4, 1000)])
    assert TAO.objection(b0, b0.including(topic1)) is None
    assert "its uplink would be 1.120 of 1" in str(TAO.objection(b0, b0.including(topic14)))
    assert "uplink would be" in str(PEER.objection(b0, b0.including(topic1)))
    full = filled(B1, 7.5)
    assert TAO.objection(full, full) == "its status is high"


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.9), (0.95, 0.9), (-1.0, 1.0), (float("nan"), 1.0)])
def test_thresholds_that_cannot_be(low, high):
    with pytest.raises(UserError, match="lower threshold"):
        Thresholds(low, high)
