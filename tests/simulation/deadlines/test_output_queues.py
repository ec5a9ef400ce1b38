"""Output queues as a fluid: amounts are exact, and deadlines are judged message by message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.simulation.deadlines.output_queues import STEP, Discipline, OutputQueues

#: Bits of a message.
SIZE, BITS = 125, 1000


def edge(capacity: float, discipline: Discipline = Discipline.FAIR, *, sheds: bool = False, **allowed: float):
    queues = OutputQueues(capacity, discipline, sheds)
    for topic, seconds in allowed.items():
        queues.queue(topic, SIZE, seconds)
    return queues


def test_nothing_waits_while_the_uplink_carries_everything():
    queues = edge(1000.0, a=1.0, b=1.0)
    queues.advance(0.0, 10.0, {"a": 600.0, "b": 400.0})
    assert queues.backlog == 0.0 and queues.queues["a"].arrived == pytest.approx(6.0)


def test_an_excess_piles_up_in_the_queue_that_takes_most_and_drains_exactly():
    queues = edge(8e6, a=10.0, b=10.0)
    queues.advance(0.0, 4.0, {"a": 2.0e6, "b": 6.56e6})
    assert queues.queues["a"].waiting == 0.0 and queues.queues["b"].bits == pytest.approx(2.24e6)
    queues.advance(4.0, 32.0, {"a": 2.0e6, "b": 5.92e6})
    assert queues.queues["b"].waiting == 0.0


def test_a_message_that_waits_longer_than_it_may_is_late():
    """10% too much: after t seconds a message waits t / 11, and so more than 0.5 s for those from 5 s on."""
    queues = edge(1e6, a=0.5)
    queues.advance(0.0, 20.0, {"a": 1.1e6})
    queue = queues.queues["a"]
    sent_late = (20.0 / 1.1 - 5.0) * 1100
    assert queue.late == pytest.approx(sent_late, rel=0.02)
    assert queue.longest == pytest.approx(20.0 / 11, abs=0.1)


def test_what_is_due_at_the_end_is_late():
    queues = edge(1e6, a=0.5)
    queues.advance(0.0, 2.0, {"a": 3e6})
    before = queues.queues["a"].late
    queues.queues["a"].end(100.0)
    assert queues.queues["a"].late == pytest.approx(before + queues.queues["a"].waiting)


def test_the_earliest_deadline_first_serves_the_tight_topic_and_starves_none():
    fair, earliest = edge(1e6, tight=0.4, loose=20.0), edge(1e6, Discipline.EARLIEST, tight=0.4, loose=20.0)
    for queues in (fair, earliest):
        queues.advance(0.0, 10.0, {"tight": 0.8e6, "loose": 0.5e6})
    assert fair.queues["tight"].late > 0
    assert earliest.queues["tight"].late == earliest.queues["loose"].late == 0
    # The oldest of the loose topic are served when they are the most urgent, even if the tight one could take all.
    queues = edge(1e6, Discipline.EARLIEST, tight=0.4, loose=2.0)
    queues.advance(0.0, 30.0, {"tight": 1.2e6, "loose": 0.5e6})
    loose = queues.queues["loose"]
    assert loose.arrived * BITS - loose.bits > 0.2 * 0.5e6 * 30


def test_shedding_sends_nothing_that_is_too_late_and_counts_it():
    queues = edge(1e6, Discipline.EARLIEST, sheds=True, a=0.5)
    queues.advance(0.0, 20.0, {"a": 1.5e6})
    queue = queues.queues["a"]
    assert queue.late == 0.0 and queue.shed * BITS == pytest.approx(0.5e6 * 20 - 0.75e6, rel=0.05)


def test_what_is_shed_is_announced_as_gaps():
    queues = edge(1e6, Discipline.EARLIEST, sheds=True, a=0.5)
    for second in range(12):
        queues.advance(second, second + 1.0, {"a": 3e6 if second in (1, 8) else 0.1e6})
    queue = queues.queues["a"]
    assert len(queue.gaps) >= 2 and all(1.0 <= gap.begin <= gap.end for gap in queue.gaps)
    assert sum(gap.messages for gap in queue.gaps) == pytest.approx(queue.shed) and queue.shed > 0
    assert edge(1e6, Discipline.EARLIEST, a=0.5).queues["a"].gaps == []


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(Discipline),
    st.booleans(),
    st.lists(st.lists(st.floats(0, 2e6), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_no_message_is_lost_and_the_uplink_is_never_exceeded(discipline, sheds, rates):
    queues = edge(1e6, discipline, sheds=sheds, a=0.2, b=1.0, c=5.0)
    for second, demands in enumerate(rates):
        queues.advance(second, second + 1.0, dict(zip("abc", demands, strict=True)))
    arrived = sum(queue.arrived for queue in queues.queues.values()) * BITS
    shed = sum(queue.shed for queue in queues.queues.values()) * BITS
    assert arrived == pytest.approx(sum(map(sum, rates)), abs=1.0)
    sent = arrived - shed - queues.backlog
    assert -1.0 <= sent <= 1e6 * len(rates) + 1.0
    assert all(
        queue.bits == pytest.approx(sum(bits for _, bits in queue.parcels), abs=1.0) for queue in queues.queues.values()
    )


def test_a_part_of_a_step_counts_as_such():
    queues = edge(1e6, a=1.0)
    queues.advance(0.0, 1.5 * STEP, {"a": 2e6})
    assert queues.queues["a"].bits == pytest.approx(1e6 * 1.5 * STEP)
