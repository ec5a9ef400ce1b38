"""T29: 30 seconds, and all three indices within 0.05 for a minute."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.stability import Stability
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

STEADY = Indices(0.5, 0.3, 0.02)


def seen(*indices: Indices) -> Stability:
    found = Stability(Parameters())
    for number, each in enumerate(indices):
        found.record(each, 10.0 * number)
    return found


def test_a_session_that_has_just_ended_is_waited_for():
    assert not seen(STEADY, STEADY).stable(since=0.0, now=29.0)
    assert seen(STEADY, STEADY).stable(since=0.0, now=30.0)


@pytest.mark.parametrize("moved", [Indices(0.56, 0.3, 0.02), Indices(0.5, 0.24, 0.02), Indices(0.5, 0.3, 0.026)])
def test_each_index_has_to_be_stable(moved):
    assert not seen(STEADY, moved, STEADY).stable(since=0.0, now=60.0)


def test_changes_below_the_percentage_do_not_count():
    assert seen(STEADY, Indices(0.54, 0.33, 0.024)).stable(since=0.0, now=60.0)


def test_only_the_last_minute_counts():
    assert seen(Indices(1.0, 1.0, 0.1), *[STEADY] * 7).stable(since=0.0, now=70.0)


def test_without_samples_only_the_duration_counts():
    assert seen().stable(since=0.0, now=30.0)
