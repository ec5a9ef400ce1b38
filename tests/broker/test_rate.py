"""λ: a moving average that forgets exponentially."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.rate import WINDOW, Rate


def test_nothing_is_nothing():
    assert Rate(0.0).per_second(100.0) == 0.0


def test_a_steady_rate_is_found_within_a_few_windows():
    rate = Rate(0.0)
    for second in range(600):
        for _ in range(5):
            rate.add(300, float(second))
    assert rate.per_second(600.0) == pytest.approx(5, rel=0.02)
    assert rate.bytes_per_second(600.0) == pytest.approx(1_500, rel=0.02)


def test_an_event_counts_1_over_e_after_a_window():
    rate = Rate(0.0)
    rate.add(WINDOW, 0.0)
    assert rate.bytes_per_second(WINDOW) == pytest.approx(1 / math.e)
    assert rate.per_second(WINDOW) == pytest.approx(1 / math.e / WINDOW)


def test_looking_changes_nothing():
    rate = Rate(0.0)
    rate.add(1, 0.0)
    rate.per_second(1_000.0)
    assert rate.per_second(0.0) == 1 / WINDOW


def test_a_clock_that_jumps_back_adds_nothing():
    rate = Rate(100.0)
    rate.add(1, 100.0)
    rate.add(1, 50.0)
    assert rate.per_second(100.0) == 2 / WINDOW


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=20), st.floats(0, 100))
def test_it_is_the_sum_of_all_events_each_decayed(events, later):
    rate, now, times = Rate(0.0), 0.0, []
    for amount, wait in events:
        now += wait
        rate.add(amount, now)
        times.append((amount, now))
    now += later
    weights = [math.exp(-(now - at) / WINDOW) for _, at in times]
    assert rate.per_second(now) == pytest.approx(sum(weights) / WINDOW, abs=1e-9)
    exact = sum(amount * weight for (amount, _), weight in zip(times, weights, strict=True)) / WINDOW
    assert rate.bytes_per_second(now) == pytest.approx(exact, abs=1e-9)
