"""T17, T41 to T43: ratios, and what they are after a change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tocsin.balancing.strategies.cheung2006.estimation.resources import Change, Resources

BROKER = Resources(
    cpu_ratio=0.5,
    input_bandwidth=1_000.0,
    input_queue_memory=600.0,
    input_rate=10.0,
    matching_slope=0.0005,
    total_memory=10_000.0,
    total_output=5_000.0,
    subscriptions=100,
    output_used=2_000.0,
    output_queue_memory=400.0,
    engine_slope=10.0,
)


def test_ratios_follow_the_definitions():
    assert BROKER.matching_delay == pytest.approx(0.05)
    assert BROKER.input_ratio == pytest.approx(10.0 / (1 / 0.05))
    assert BROKER.output_ratio == pytest.approx(0.4)
    assert BROKER.memory_ratio == pytest.approx((600 + 400 + 1_000) / 10_000)


def test_matching_delay_is_in_proportion_to_subscriptions():
    assert BROKER.delay_after(20) == pytest.approx(120 / 100 * 0.05)
    assert BROKER.delay_after(-200) == 0.0


def test_input_and_processor_follow_rate_and_delay():
    assert BROKER.input_after(20, 5.0) == pytest.approx(15.0 * 0.06)
    assert BROKER.cpu_after(20, 5.0) == pytest.approx(15.0 * 0.06)
    backlog = replace(BROKER, cpu_ratio=1.0)
    assert backlog.cpu_after(-50, 0.0) == pytest.approx(0.5)


def test_output_adds_what_subscribers_need():
    assert BROKER.output_after(500.0) == pytest.approx(0.5)
    assert BROKER.output_after(-9_000.0) == 0.0


def test_memory_of_queues_and_engine():
    after = BROKER.after(Change(subscriptions=10, input_rate=5.0, output=1_000.0))
    assert after.input_queue_memory == pytest.approx(600 * 1.5 * 1.1)  # 4.13
    assert after.output_queue_memory == pytest.approx(400 * 1.5)  # 4.14
    assert after.engine_slope * after.subscriptions == pytest.approx(1_000 * 1.1)  # 4.15
    assert after.memory_ratio == pytest.approx((990 + 600 + 1_100) / 10_000)  # 4.12, 4.16
    assert BROKER.memory_after(10, 5.0, 1_000.0) == after.memory_ratio


def test_an_idle_broker_can_accept():
    idle = replace(BROKER, cpu_ratio=0.0, input_rate=0.0, output_used=0.0, subscriptions=0, input_bandwidth=0.0)
    after = idle.after(Change(10, 2.0, 500.0))
    assert (after.input_rate, after.subscriptions, after.output_used) == (2.0, 10, 500.0)
    assert after.cpu_ratio == pytest.approx(after.input_ratio) == pytest.approx(2.0 * 0.005)
