"""The detector of metrics with given thresholds."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import B1, filled

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK
from tocsin.balancing.strategies.tao2013.static_threshold import StaticThreshold
from tocsin.errors import UserError


@pytest.mark.parametrize(
    ("megabits", "state"),
    [(7.0, LoadState.UNDERLOADED), (7.4, LoadState.NORMAL), (7.7, LoadState.OVERLOADED)],
)
def test_the_state_by_the_two_thresholds(megabits, state):
    detector, table = StaticThreshold(), filled(B1, megabits)
    assert detector.make_decision(scope(model(table)), DOWNLINK) is state
    assert detector.overloaded(table, DOWNLINK, 0.0) is (state is LoadState.OVERLOADED)
    assert detector.late(table, DOWNLINK, 0.0) == frozenset()


def test_thresholds_in_the_wrong_order_are_refused():
    with pytest.raises(UserError, match="lower threshold"):
        StaticThreshold(0.95, 0.9)
