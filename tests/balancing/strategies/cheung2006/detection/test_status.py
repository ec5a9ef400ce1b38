"""T23: the two state machines of figure 3.3."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.detection.status import GLOBAL, LOCAL, State, Status
from tocsin.errors import SystemFailure

OK, BUSY, NA, STABILIZING = Status.OK, Status.BUSY, Status.UNAVAILABLE, Status.STABILIZING


def reached(transitions, path):
    state = State(transitions)
    for now, status in enumerate(path, 1):
        state.change(status, float(now))
    return state


@pytest.mark.parametrize("path", [[BUSY, STABILIZING, OK], [NA, BUSY, STABILIZING, NA, STABILIZING, OK]])
def test_a_broker_stabilizes_after_a_session_and_after_overload(path):
    state = reached(LOCAL, path)
    assert state.status is OK and state.since == len(path)


@pytest.mark.parametrize("path", [[BUSY, OK], [NA, BUSY, NA]])
def test_a_session_in_which_nothing_moved_leaves_the_status_as_it_was(path):
    assert reached(LOCAL, path).status is path[-1]


@pytest.mark.parametrize("path", [[NA, OK], [STABILIZING], [BUSY, STABILIZING, BUSY, STABILIZING, STABILIZING, NA, OK]])
def test_a_broker_takes_no_short_cut(path):
    with pytest.raises(SystemFailure):
        reached(LOCAL, path)


@pytest.mark.parametrize("path", [[BUSY, OK], [NA, BUSY, NA, OK], [BUSY, NA]])
def test_a_cluster_does_not_stabilize(path):
    assert reached(GLOBAL, path).status is path[-1]


def test_a_cluster_has_no_such_status():
    with pytest.raises(SystemFailure):
        reached(GLOBAL, [BUSY, STABILIZING])


def test_the_same_status_keeps_its_time():
    state = reached(LOCAL, [BUSY])
    state.change(BUSY, 9.0)
    assert state.since == 1.0
