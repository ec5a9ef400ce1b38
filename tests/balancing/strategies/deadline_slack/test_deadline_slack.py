"""The slack of an edge that serves the earliest deadline first."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import B1, overloaded, use
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.strategies.deadline_slack.slack import DeadlineSlack, due, first_miss, oldest
from tocsin.balancing.strategies.tao2013.metrics import BYTE, QUEUE, LoadTable, Resources, Role
from tocsin.errors import UserError
from tocsin.simulation.deadlines.output_queues import Discipline, OutputQueues


def test_what_is_due_grows_with_time():
    topic = use("1", 100, 2, 125, waiting=400, allowed=3.0)  # 1,000 bits; the oldest has waited 2 s
    assert oldest(topic) == pytest.approx(2.0)
    assert [due(topic, seconds) for seconds in (0.5, 1.0, 2.0, 3.0, 4.0)] == pytest.approx([0, 0, 2e5, 4e5, 6e5])


def test_nothing_is_late_while_the_uplink_carries_everything():
    table = LoadTable.of(B1, Role.EDGE, [use("1", 100, 2, 1000, allowed=0.5)])
    assert first_miss(table, 0.0, 1e6) is None and not DeadlineSlack().overloaded(table, QUEUE, 0.2)


def test_a_loose_topic_gives_the_tight_ones_time():
    """Topic 14 may wait 50 s: serving the others first, the first miss of b1 is beyond the horizon."""
    assert first_miss(overloaded(0.0), 0.0, 45.0) is None
    tight = overloaded(0.0).without(["14"]).including(use("14", 200, 3, 300, allowed=1.0))
    assert first_miss(tight, 0.0, 45.0) is not None


def test_it_acts_on_the_rise_before_a_queue_is_there():
    tight = overloaded(0.0).without(["14"]).including(use("14", 200, 3, 300, allowed=1.0))
    assert DeadlineSlack().make_decision(scope(model(tight)), QUEUE) is LoadState.OVERLOADED
    assert DeadlineSlack().late(tight, QUEUE, 0.2) == {"1", "3", "8", "14"}
    assert DeadlineSlack(horizon=0.5).make_decision(scope(model(tight)), QUEUE) is LoadState.NORMAL


@pytest.mark.parametrize("horizon", [-1.0, float("nan")])
def test_horizons_that_cannot_be(horizon):
    with pytest.raises(UserError, match="horizon"):
        DeadlineSlack(horizon)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(0.2, 8.0), st.floats(0.1, 0.6)), min_size=1, max_size=5))
def test_the_first_miss_is_that_of_the_simulated_queues(topics):
    """Without a predicted miss there is none, and with one there is: to the steps of the simulation."""
    resources, horizon = Resources(1e6, 1e9, 1000), 10.0
    uses = [
        use(str(number), share * 1e6 / BYTE / 100, 1, 100, allowed=allowed)
        for number, (allowed, share) in enumerate(topics)
    ]
    queues = OutputQueues(resources.uplink, Discipline.EARLIEST)
    for each in uses:
        queues.queue(each.topic, each.size, each.allowed)
    predicted = first_miss(LoadTable.of(resources, Role.EDGE, uses), 0.0, horizon)
    queues.advance(0.0, horizon, {each.topic: each.bits_out for each in uses})
    late = sum(queue.late for queue in queues.queues.values())
    arrived = sum(queue.arrived for queue in queues.queues.values())
    if predicted is None:
        assert late <= 0.02 * arrived
    elif predicted < horizon - 1.0:
        assert late > 0.0
