"""T24, T28: smoothing, and differences of indices."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices, Offload, mean
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


def test_smoothing_weighs_the_present_with_alpha():
    before, now = Indices(0.4, 0.2, 0.02, 0.5, 0.1), Indices(0.8, 0.6, 0.04, 1.0, 0.1)
    found = now.smoothed(before, 0.75)
    assert found.input == pytest.approx(0.7) and found.output == pytest.approx(0.5)
    assert found.matching_delay == pytest.approx(0.035) and found.cpu == pytest.approx(0.875)
    assert now.smoothed(None, 0.75) == now


def test_delays_differ_in_tenths_of_a_second():
    one, other = Indices(0.5, 0.3, 0.03), Indices(0.2, 0.5, 0.01)
    found = one.differences(other, Parameters())
    assert found[Offload.INPUT] == pytest.approx(0.3) and found[Offload.OUTPUT] == pytest.approx(-0.2)
    assert found[Offload.MATCH] == pytest.approx(0.2)


def test_a_cluster_has_the_mean_of_its_edges():
    assert mean([Indices(0.2, 0.4, 0.02, 1.0), Indices(0.6, 0.0, 0.04)]) == Indices(0.4, 0.2, 0.03)
    assert mean([]) == Indices()
