"""T17, T57: a broker's queues, its indices, and what balancing sees of it."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.balancing.strategies.cheung2006.offload.covering import Covering
from tocsin.simulation.edges.broker import SYSTEM, EdgeBroker, Specification
from tocsin.simulation.edges.matches import Quote
from tocsin.simulation.edges.meter import WINDOW, Meter

TEXTS = ["[class,eq,'STOCK']", "[class,eq,'STOCK'],[volume,>,5]"]
QUOTE = Quote(np.array([0]), 125)


def broker(subscribers: int = 8) -> EdgeBroker:
    """1,000 bytes a second; 0.017 s for each of ten subscriptions, with its own two."""
    found = EdgeBroker(Specification("B1", 1.0, 16, 0.008), TEXTS, Covering({0: 0, 1: 1}))
    for number in range(subscribers):
        found.subscribe(f"s{number}", 0)
    return found


def test_matching_takes_time_in_proportion_to_subscriptions():
    found = broker()
    assert found.total == 8 + SYSTEM and found.indices().matching_delay == pytest.approx(0.17)


def test_publications_wait_for_the_engine_and_for_the_bandwidth():
    found = broker(subscribers=2)
    delay = 0.017 * 4
    for _ in range(3):
        found.enqueue(QUOTE, 10.0, 10.0)
    found.advance(10.0 + 1.5 * delay)
    assert len(found.queue) == 1 and found.busy_until == pytest.approx(10.0 + 2 * delay)
    found.advance(20.0)
    assert found.input_wait == pytest.approx(2 * delay)
    # Two copies of 125 bytes take a quarter of a second, longer than matching.
    assert found.out_until == pytest.approx(10.0 + delay + 3 * 0.25)
    assert found.delivered == 6
    assert found.delays == pytest.approx(6 * delay + sum(0.125 * place for place in range(1, 7)))


def test_indices_are_sampled_at_enqueue():
    found = broker()
    for number in range(40):
        found.enqueue(QUOTE, 1.0 + number / 2, 1.0)
    found.advance(21.0)
    assert found.input.rate(21.0) == pytest.approx(2.0)
    assert found.indices().input == pytest.approx(2.0 * 0.17)
    # 16 copies of 125 bytes a second of a bandwidth of 1,000; what is in service has not left yet.
    assert found.indices().output == pytest.approx(2.0, rel=0.1)


def test_a_backlog_keeps_the_processor_busy():
    found = broker()
    for _ in range(1_000):
        found.enqueue(QUOTE, 0.5, 0.5)
    found.advance(60.0)
    assert found.indices().input == 0.0 and found.indices().cpu == pytest.approx(1.0, abs=0.02)
    assert found.resources().input_queue_memory == len(found.queue) * 125
    assert found.queue_delay() > len(found.queue) * 0.17


def test_leaving_subscribers_are_no_candidates_and_still_get_publications():
    found = broker(2)
    found.leave("s0")
    assert found.subscribers() == {0: ["s1"]} and found.has("s0", 0)
    found.enqueue(QUOTE, 1.0, 1.0)
    found.advance(5.0)
    assert found.delivered == 2
    found.unsubscribe("s0", 0)
    found.unsubscribe("s1", 0)
    assert found.present == 0 and found.total == SYSTEM and found.subscribers() == {}


def test_the_css_leaves_out_what_is_covered():
    found = broker(1)
    found.subscribe("t", 1)
    assert found.css() == (TEXTS[0],) and list(found.subscribe_locally(found.css())) == [0]
    found.unsubscribe("s0", 0)
    assert found.css() == (TEXTS[1],)


def test_a_meter_counts_whole_seconds_of_its_window():
    meter = Meter()
    for second in range(100):
        meter.add(3.0, second + 0.5)
    assert meter.rate(100.0) == 3.0
    assert meter.rate(100.0 + WINDOW) == 0.0
    meter.add(5.0, 10.0)
    assert meter.rate(100.0 + WINDOW) == 0.0


def test_a_young_meter_divides_by_its_age():
    meter = Meter()
    meter.add(4.0, 0.5)
    assert meter.rate(0.9) == 0.0 and meter.rate(2.0) == 2.0
