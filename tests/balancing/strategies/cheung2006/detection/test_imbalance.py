"""T28: step 2 of detection, and the balanced set."""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.detection.imbalance import balanced_with, imbalanced
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

OWN = Indices(0.5, 0.5, 0.03)
KNOWN = [
    Pie("B2", "C", Status.OK, Indices(0.3, 0.45, 0.03)),
    Pie("B3", "C", Status.OK, Indices(0.45, 0.55, 0.005)),
    Pie("B4", "C", Status.OK, Indices(0.8, 0.8, 0.09)),
    Pie("B5", "C", Status.UNAVAILABLE, Indices(0.0, 0.0, 0.0)),
    Pie("B6", "C", Status.OK, Indices(0.45, 0.45, 0.025)),
]


def test_the_list_is_in_descending_order_of_the_difference():
    found = imbalanced(OWN, KNOWN, Parameters(), 0.1, 0.1)
    assert [(each.broker, each.action) for each in found] == [("B3", Offload.MATCH), ("B2", Offload.INPUT)]
    assert not any(each.overloaded for each in found)


def test_only_the_higher_loaded_side_acts():
    assert "B4" not in [each.broker for each in imbalanced(OWN, KNOWN, Parameters(), 0.1, 0.1)]


def test_higher_thresholds_leave_more_alone():
    assert imbalanced(OWN, KNOWN, Parameters(), 0.3, 0.3) == []


def test_the_balanced_set_has_those_within_all_thresholds():
    assert balanced_with(OWN, KNOWN, Parameters()) == ("B6",)
