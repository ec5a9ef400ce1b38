"""What the coordinator is told between two full reports."""

from __future__ import annotations

from stand import Stand

from tocsin.broker.core.load_reports import ROUND
from tocsin.broker.core.rate import LEAST


def test_a_rate_that_is_no_news_is_said_again_within_a_round():
    """The coordinator may have gone by another broker's, which has it no longer."""
    stand = Stand(heartbeat=0.0)
    stand.open("p")
    stand.subscribed("p", number=7)
    assert stand.state.changes(1, stand.now, full=True).rates == {7: 0.0}
    said = [number for number in range(2, 2 + ROUND) if stand.state.changes(number, stand.now, full=False).rates]
    assert said == [7]


def test_a_rate_that_has_just_begun_to_be_counted_is_said_to_be_fresh():
    stand = Stand(heartbeat=0.0)
    stand.open("p")
    stand.subscribed("p", number=7)
    assert stand.state.changes(1, stand.now, full=True).fresh == [7]
    assert stand.state.changes(2, stand.now + LEAST, full=True).fresh == []
