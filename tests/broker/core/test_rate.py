"""λ: a moving average with exponential decay."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.broker.core.model.rate import LEAST, WINDOW, Rate, seconds


def test_a_rate_without_events_is_0():
    assert Rate(0.0).per_second(100.0) == 0.0


def test_a_steady_rate_is_estimated_within_a_few_windows():
    rate = Rate(0.0)
    for second in range(600):
        for _ in range(5):
            rate.add(300, float(second))
    assert rate.per_second(600.0) == pytest.approx(5, rel=0.02)
    assert rate.bytes_per_second(600.0) == pytest.approx(1_500, rel=0.02)


def test_an_event_counts_1_over_e_after_a_window():
    rate = Rate(0.0)
    rate.add(WINDOW, 0.0)
    for windows in (1, 2, 5):
        faded = math.exp(-windows) / seconds(windows * WINDOW)
        assert rate.bytes_per_second(windows * WINDOW) == pytest.approx(WINDOW * faded)
        assert rate.per_second(windows * WINDOW) == pytest.approx(faded)


def test_reading_a_rate_changes_nothing():
    rate = Rate(0.0)
    rate.add(1, 0.0)
    rate.per_second(1_000.0)
    assert rate.per_second(0.0) == 1 / seconds(0.0)


def test_a_clock_that_jumps_back_adds_nothing():
    rate = Rate(100.0)
    rate.add(1, 100.0)
    rate.add(1, 50.0)
    assert rate.per_second(100.0) == rate.per_second(50.0) == 2 / seconds(0.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=20), st.floats(0, 100))
def test_a_rate_is_the_sum_of_all_events_with_exponential_decay(events, later):
    rate, now, times = Rate(0.0), 0.0, []
    for amount, wait in events:
        now += wait
        rate.add(amount, now)
        times.append((amount, now))
    now += later
    weights = [math.exp(-(now - at) / WINDOW) for _, at in times]
    assert rate.per_second(now) == pytest.approx(sum(weights) / seconds(now), abs=1e-9)
    exact = sum(amount * weight for (amount, _), weight in zip(times, weights, strict=True)) / seconds(now)
    assert rate.bytes_per_second(now) == pytest.approx(exact, abs=1e-9)


@settings(deadline=None)
@given(begun=st.floats(0, 1e6), period=st.floats(1, 120), observed=st.floats(LEAST, 20 * WINDOW))
def test_the_mean_of_a_steady_stream_does_not_depend_on_the_observation_time(begun, period, observed):
    """The mean over all phases at which the observation may begin."""
    phases = 400
    found = []
    for phase in range(phases):
        rate, at = Rate(begun), (phase + 0.5) / phases * period
        while at <= observed:
            rate.add(300, begun + at)
            at += period
        found.append(rate.bytes_per_second(begun + observed))
    assert sum(found) / phases == pytest.approx(300 / period, rel=0.02)


@given(observed=st.floats(0, LEAST), count=st.integers(1, 20))
def test_a_short_observation_does_not_overestimate(observed, count):
    rate = Rate(0.0)
    for _ in range(count):
        rate.add(1, observed)
    assert count / LEAST <= rate.per_second(observed) <= count / (0.75 * LEAST)


@given(st.floats(0, 1e5), st.floats(0, 1e5))
def test_the_averaging_time_grows_up_to_the_window(one, other):
    low, high = sorted((one, other))
    assert 0 < seconds(low) <= seconds(high) <= WINDOW
