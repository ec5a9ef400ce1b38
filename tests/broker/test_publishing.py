"""Records from subscribers, gathered into one post a feed."""

from __future__ import annotations

import pytest
from msgspec import Raw
from stand import Stand

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.broker.core.publications import EACH, MOST_RECORDS
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.open("p", "q")
    return stand


def publish(id: int, *records: bytes, feed: str = "F") -> wire.Publish:
    return wire.Publish(id, feed, [Raw(record) for record in records])


def commits(stand: Stand) -> list[tuple[str, list[bytes]]]:
    return [(it.feed, [bytes(record) for record in it.records]) for it in stand.did(do.Commit)]


def test_records_are_committed_and_then_confirmed(stand):
    stand.say("p", publish(5, b"1", b"2"))
    assert commits(stand) == [("F", [b"1", b"2"])] and stand.took("p") == []
    stand.handle(ev.Published("F"))
    assert stand.took("p") == [wire.Published(5, 2)]


def test_what_comes_during_a_commit_goes_together_into_the_next(stand):
    stand.say("p", publish(1, b"1"))
    stand.say("p", publish(2, b"2"))
    stand.say("q", publish(3, b"3"))
    assert commits(stand) == [("F", [b"1"])]
    stand.handle(ev.Published("F"))
    assert commits(stand) == [("F", [b"2", b"3"])]
    stand.handle(ev.Published("F"))
    assert stand.took("p") == [wire.Published(1, 1), wire.Published(2, 1)]
    assert stand.took("q") == [wire.Published(3, 1)]


def test_feeds_do_not_wait_for_each_other(stand):
    stand.say("p", publish(1, b"1"), publish(2, b"2", feed="G"))
    assert commits(stand) == [("F", [b"1"]), ("G", [b"2"])]


def test_each_is_told_of_its_own_records_that_were_refused(stand):
    stand.say("p", publish(1, b"x"))
    stand.say("p", publish(2, b"1", b"2"))
    stand.say("q", publish(3, b"3", b"4"))
    stand.handle(ev.Published("F"))
    stand.took("p")
    stand.handle(ev.Published("F", [(3, "missing", "no n"), (1, "null", "n")]))
    assert stand.took("p") == [wire.Published(2, 1, [wire.Refused(1, "null", "n")])]
    assert stand.took("q") == [wire.Published(3, 1, [wire.Refused(1, "missing", "no n")])]
    assert stand.state.counters.published == 3


def test_a_commit_that_failed_is_an_error_to_all_who_are_in_it(stand):
    stand.say("p", publish(1, b"1"))
    stand.handle(ev.PublishFailed("F", Problem("not_found", "no feed", "hint")))
    assert stand.took("p") == [wire.Error(1, "not_found", "no feed", "hint")]


def test_what_waits_behind_a_failed_commit_is_tried(stand):
    stand.say("p", publish(1, b"1"))
    stand.say("p", publish(2, b"2"))
    commits(stand)
    stand.handle(ev.PublishFailed("F", Problem("conflict", "stopped")))
    assert commits(stand) == [("F", [b"2"])]


def test_one_post_holds_only_so_many_records(stand):
    stand.say("p", publish(1, b"1"))
    for id in (2, 3):
        stand.say("p", publish(id, *[b"1"] * 600))
    stand.handle(ev.Published("F"))
    assert [len(records) for _, records in commits(stand)] == [1, 600]
    assert MOST_RECORDS < 1200


def test_who_has_left_gets_no_answer_and_its_records_are_kept(stand):
    stand.say("p", publish(1, b"1"))
    stand.close("p")
    stand.handle(ev.Published("F"))
    assert stand.took("p") == [] and stand.state.counters.published == 1


def test_more_than_the_broker_holds_is_refused_at_once():
    stand = Stand(BrokerLimits(publish_bytes=2 * EACH + 20))
    stand.open("p")
    stand.say("p", publish(1, b"1" * 10))
    stand.say("p", publish(2, b"1" * 10))
    stand.say("p", publish(3, b"1"))
    (error,) = stand.took("p")
    assert (error.id, error.code) == (3, "busy")


def test_many_tiny_records_count_for_what_they_cost():
    stand = Stand(BrokerLimits(publish_bytes=100 * EACH))
    stand.open("p")
    stand.say("p", publish(1, *[b"1"] * 100))
    assert stand.took("p")[0].code == "busy"


def test_an_answer_makes_room(stand):
    stand.say("p", publish(1, b"1"))
    stand.handle(ev.Published("F"))
    assert stand.state.publishing.waiting_bytes == 0 and stand.state.publishing._feeds == {}
