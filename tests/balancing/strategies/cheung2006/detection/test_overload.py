"""T26, T27: step 1 of detection."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload
from tocsin.balancing.strategies.cheung2006.detection.overload import overloaded, relievers, unavailable
from tocsin.balancing.strategies.cheung2006.detection.pie import Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


@pytest.mark.parametrize("name", ["input", "output", "cpu", "memory"])
def test_each_of_four_ratios_makes_a_broker_unavailable(name):
    assert unavailable(Indices(**{name: 0.9}), Parameters())
    assert not unavailable(Indices(**{name: 0.89}), Parameters())


@pytest.mark.parametrize(
    ("indices", "action"),
    [
        (Indices(input=0.96), Offload.INPUT),
        (Indices(output=0.96), Offload.OUTPUT),
        (Indices(cpu=0.96), Offload.MATCH),
        (Indices(memory=0.96), Offload.MATCH),
        (Indices(input=0.94, output=0.95), None),
        (Indices(output=1.2, memory=0.97), Offload.OUTPUT),
        (Indices(input=0.96, output=1.5, cpu=1.0), Offload.INPUT),
    ],
)
def test_beyond_the_higher_threshold_the_resource_says_what_to_do(indices, action):
    assert overloaded(indices, Parameters()) is action


def test_the_least_loaded_by_that_index_comes_first_and_overloaded_ones_never():
    known = [
        Pie("B2", "C", Status.OK, Indices(0.3, 0.1, 0.01)),
        Pie("B3", "C", Status.BUSY, Indices(0.2, 0.2, 0.03)),
        Pie("B4", "C", Status.STABILIZING, Indices(0.1, 0.3, 0.02)),
        Pie("B5", "C", Status.UNAVAILABLE, Indices(0.0, 0.0, 0.0)),
    ]
    order = {action: [each.broker for each in relievers(action, known)] for action in Offload}
    assert order == {
        Offload.INPUT: ["B4", "B3", "B2"],
        Offload.OUTPUT: ["B2", "B3", "B4"],
        Offload.MATCH: ["B2", "B4", "B3"],
    }
