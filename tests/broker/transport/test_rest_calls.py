"""A request for results over REST: what its answer has of the messages of the state machine."""

from __future__ import annotations

import pytest

from tocsin.broker.transport.rest_calls import Poll, ResultsQuery, mine
from tocsin.broker.transport.rest_request import _head
from tocsin.errors import NotFound
from tocsin.wire import messages as wire

HELD = wire.DurableSubscription(7, "C", ["fire"], 3, {5: 2}, epoch=4)


def polled(query: ResultsQuery, *messages: wire.Message) -> Poll:
    poll = Poll(HELD, query)
    for message in messages:
        assert not poll.complete
        text = wire.encode(message)
        poll.take(_head.decode(text), text)
    return poll


def notify(execution: int) -> wire.Notify:
    return wire.Notify("C", 7, execution, 1, [1])


def test_a_poll_resumes_from_what_was_acknowledged_or_from_the_callers_own_position():
    assert Poll(HELD, ResultsQuery(7)).request == wire.Subscribe(1, "C", ["fire"], 3, 7, 4)
    assert Poll(HELD, ResultsQuery(7, after=9, epoch=2)).request == wire.Subscribe(1, "C", ["fire"], 9, 7, 2)
    assert Poll(HELD, ResultsQuery(7, after=9)).request == wire.Subscribe(1, "C", ["fire"], 9, 7)


def test_duplicates_are_dropped_and_the_answer_has_the_position():
    poll = polled(ResultsQuery(7), wire.Subscribed(1, 7, "C", 2, 4), notify(3), notify(4), wire.Live(7, 4))
    answer = poll.answer()
    assert poll.complete and (answer["after"], answer["epoch"], len(answer["results"])) == (4, 4, 1)


def test_a_channel_that_was_created_again_counts_from_the_beginning():
    poll = polled(ResultsQuery(7, after=57, epoch=4), wire.Subscribed(1, 9, "C", 1, 6), notify(2), wire.Live(9, 2))
    answer = poll.answer()
    assert (answer["after"], answer["epoch"], len(answer["results"])) == (2, 6, 1)
    assert answer["gaps"] == [wire.Gap(9, 0, 2, "dropped")]


def test_a_poll_that_waits_ends_with_a_result_a_migration_or_its_limit():
    live = wire.Live(7, 3)
    assert not polled(ResultsQuery(7, wait=5.0), live).complete
    assert polled(ResultsQuery(7), live).complete
    assert polled(ResultsQuery(7, wait=5.0), live, notify(4)).complete
    assert polled(ResultsQuery(7, wait=5.0, limit=1), notify(4)).complete
    migrate = wire.Migrate("b", "http://b", "ticket")
    assert polled(ResultsQuery(7, wait=5.0), live, migrate).answer()["migrate"] == migrate


def test_what_is_not_the_users_is_not_found():
    assert mine([HELD], 7) is HELD and mine([HELD], 5) is HELD
    with pytest.raises(NotFound):
        mine([HELD], 6)
