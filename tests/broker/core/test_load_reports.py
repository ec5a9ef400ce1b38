"""What the coordinator is told between two full reports."""

from __future__ import annotations

from broker_harness import BrokerHarness

from tocsin.broker.core.load_reports import ROUND
from tocsin.broker.core.rate import LEAST


def test_a_rate_that_is_no_news_is_said_again_within_a_round():
    """The coordinator may have gone by another broker's, which has it no longer."""
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribed("p", number=7)
    assert harness.state.load_reports.changes(1, harness.now, full=True).rates == {7: 0.0}
    said = [
        number
        for number in range(2, 2 + ROUND)
        if harness.state.load_reports.changes(number, harness.now, full=False).rates
    ]
    assert said == [7]


def test_a_rate_that_has_just_begun_to_be_counted_is_said_to_be_fresh():
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribed("p", number=7)
    assert harness.state.load_reports.changes(1, harness.now, full=True).fresh == [7]
    assert harness.state.load_reports.changes(2, harness.now + LEAST, full=True).fresh == []
