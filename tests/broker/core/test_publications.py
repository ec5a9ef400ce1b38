"""Records from subscribers, gathered into one post a feed."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness
from msgspec import Raw

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.broker.core.publications import EACH, MOST_FEEDS, MOST_RECORDS
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness()
    harness.open("p", "q")
    return harness


def publish(id: int, *records: bytes, feed: str = "F") -> wire.Publish:
    return wire.Publish(id, feed, [Raw(record) for record in records])


def commits(harness: BrokerHarness) -> list[tuple[str, list[bytes]]]:
    return [(it.feed, [bytes(record) for record in it.records]) for it in harness.did(do.Publish)]


def test_records_are_committed_and_then_confirmed(harness):
    harness.say("p", publish(5, b"1", b"2"))
    assert commits(harness) == [("F", [b"1", b"2"])] and harness.took("p") == []
    harness.handle(ev.Published("F"))
    assert harness.took("p") == [wire.Published(5, 2)]


def test_records_that_arrive_during_a_commit_are_batched_into_the_next(harness):
    harness.say("p", publish(1, b"1"))
    harness.say("p", publish(2, b"2"))
    harness.say("q", publish(3, b"3"))
    assert commits(harness) == [("F", [b"1"])]
    harness.handle(ev.Published("F"))
    assert commits(harness) == [("F", [b"2", b"3"])]
    harness.handle(ev.Published("F"))
    assert harness.took("p") == [wire.Published(1, 1), wire.Published(2, 1)]
    assert harness.took("q") == [wire.Published(3, 1)]


def test_feeds_do_not_wait_for_each_other(harness):
    harness.say("p", publish(1, b"1"), publish(2, b"2", feed="G"))
    assert commits(harness) == [("F", [b"1"]), ("G", [b"2"])]


def test_each_publisher_receives_the_refusals_of_its_own_records(harness):
    harness.say("p", publish(1, b"x"))
    harness.say("p", publish(2, b"1", b"2"))
    harness.say("q", publish(3, b"3", b"4"))
    harness.handle(ev.Published("F"))
    harness.took("p")
    harness.handle(ev.Published("F", [(3, "missing", "no n"), (1, "null", "n")]))
    assert harness.took("p") == [wire.Published(2, 1, [wire.Refused(1, "null", "n")])]
    assert harness.took("q") == [wire.Published(3, 1, [wire.Refused(1, "missing", "no n")])]
    assert harness.state.counters.published == 3


def test_a_failed_commit_is_an_error_to_its_publishers(harness):
    harness.say("p", publish(1, b"1"))
    harness.handle(ev.PublishFailed("F", Problem("not_found", "no feed", "hint")))
    assert harness.took("p") == [wire.Error(1, "not_found", "no feed", "hint")]


def test_records_that_wait_for_a_failed_commit_are_tried(harness):
    harness.say("p", publish(1, b"1"))
    harness.say("p", publish(2, b"2"))
    commits(harness)
    harness.handle(ev.PublishFailed("F", Problem("conflict", "stopped")))
    assert commits(harness) == [("F", [b"2"])]


def test_one_post_holds_a_limited_number_of_records(harness):
    harness.say("p", publish(1, b"1"))
    for id in (2, 3):
        harness.say("p", publish(id, *[b"1"] * 600))
    harness.handle(ev.Published("F"))
    assert [len(records) for _, records in commits(harness)] == [1, 600]
    assert MOST_RECORDS < 1200


def test_the_records_of_a_publisher_that_has_left_are_kept(harness):
    harness.say("p", publish(1, b"1"))
    harness.close("p")
    harness.handle(ev.Published("F"))
    assert harness.took("p") == [] and harness.state.counters.published == 1


def test_records_over_the_brokers_limit_are_refused_at_once():
    harness = BrokerHarness(BrokerLimits(publish_bytes=2 * EACH + 20))
    harness.open("p")
    harness.say("p", publish(1, b"1" * 10))
    harness.say("p", publish(2, b"1" * 10))
    harness.say("p", publish(3, b"1"))
    (error,) = harness.took("p")
    assert (error.id, error.code) == (3, "busy")


def test_tiny_records_count_with_their_memory_cost():
    harness = BrokerHarness(BrokerLimits(publish_bytes=100 * EACH))
    harness.open("p")
    harness.say("p", publish(1, *[b"1"] * 100))
    assert harness.took("p")[0].code == "busy"


def test_an_answered_publication_frees_its_memory(harness):
    harness.say("p", publish(1, b"1"))
    harness.handle(ev.Published("F"))
    assert harness.state.publications.waiting_bytes == 0 and harness.state.publications._feeds == {}


def test_the_feeds_that_took_a_record_are_those_that_a_session_publishes_to(harness):
    def answered(answer: ev.Published | ev.PublishFailed, *records: bytes) -> frozenset[str]:
        harness.say("p", publish(1, *records, feed=answer.feed))
        harness.handle(answer)
        return harness.state.context.sessions["p"].publishes

    harness.say("p", publish(1, b"1", feed="Waits"))
    assert answered(ev.PublishFailed("None", Problem("not_found", "no feed")), b"1") == frozenset()
    assert answered(ev.Published("Strict", [(0, "null", "n")]), b"1") == frozenset()
    assert answered(ev.Published("Some", [(0, "null", "n")]), b"1", b"2") == {"some"}
    for number in range(2 * MOST_FEEDS):
        found = answered(ev.Published(f"F{number}"), b"1")
    assert len(found) == MOST_FEEDS and {"some", "f0"} < found
