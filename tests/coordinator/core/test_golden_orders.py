"""The coordinator orders the same migrations as those stored (golden_orders.py says how to store others)."""

from __future__ import annotations

import json

import pytest
from golden_orders import STORED, STRATEGIES, recorded

GOLDEN = json.loads(STORED.read_text())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_reports_lead_to_the_same_orders_and_notes(strategy):
    assert recorded(strategy) == GOLDEN[strategy]
    assert sum(count for _, count, _ in GOLDEN[strategy]) > 5
