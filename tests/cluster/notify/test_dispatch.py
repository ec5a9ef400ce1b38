"""The dispatch machine alone: no network, no clock, no threads."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify import dispatch as on
from tocsin.cluster.notify.dispatch import BATCH, READ, Dispatch, make_batch
from tocsin.cluster.notify.retry_policy import RetryPolicy

BROKER = Broker(1, "b", "http://b/notify")


def entry(number: int) -> OutboxEntry:
    return OutboxEntry(1, 2, number)


def body(entries: list[OutboxEntry]) -> bytes:
    return b"".join(b"%d," % each.execution for each in entries)


def executions(text: bytes) -> list[int]:
    return [int(each) for each in text.split(b",")[:-1]]


class Rig:
    """The machine with an outbox, a catalog that answers at once, and a connection played by the test."""

    def __init__(self, *, gone_after: float = 10.0) -> None:
        self.dispatch = Dispatch(RetryPolicy(gone_after, Random(1), least=1.0, most=1.0))
        self.outbox: list[OutboxEntry] = []
        self.broker = BROKER
        self.now = 0.0
        self.sent: list[list[int]] = []
        self.deferred: list[bool] = []
        self.pauses: list[on.Pause] = []
        self.connections = self.closed = self.given_up = 0
        self.reports: list[str] = []
        self.refusing = False

    def execute(self, *numbers: int) -> None:
        self.outbox += [entry(number) for number in numbers]
        self.do(on.Wake())

    def do(self, event: on.Event) -> None:
        for it in self.dispatch.handle(event, self.now):
            self._perform(it)

    def _perform(self, it: Any) -> None:
        match it:
            case on.ReadOutbox():
                unknown = [each for each in self.outbox if each not in it.known]
                self.do(on.OutboxRead(unknown[: it.limit], self.broker))
            case on.MakeBatch():
                self.do(on.BatchMade(len(it.entries), body(list(it.entries))))
            case on.Connect():
                self.connections += 1
                self.do(on.Disconnected("refused") if self.refusing else on.Connected())
            case on.Post():
                self.sent.append(executions(it.body))
                self.deferred.append(it.defer)
            case on.Delete():
                self.outbox = [each for each in self.outbox if each not in it.entries]
                self.do(on.Deleted(it.entries))
            case on.Close():
                self.closed += 1
            case on.Pause():
                self.pauses.append(it)
            case on.GiveUp():
                self.given_up += 1
                self.outbox.clear()
                self.do(on.GaveUp())
            case on.Report():
                self.reports.append(it.outcome)

    def answer(self, allowed: int = 0, status: int = 204) -> None:
        self.do(on.Answered(status, allowed))

    def end_pause(self) -> None:
        self.now += self.pauses[-1].seconds
        self.do(on.PauseEnded(self.pauses[-1].id))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_entry_stays_in_the_outbox_until_its_answer(rig):
    rig.execute(1)
    assert rig.sent == [[1]] and rig.outbox == [entry(1)]
    rig.answer()
    assert rig.outbox == [] and rig.reports == ["ok"]


def test_the_first_request_of_a_connection_requires_an_immediate_answer(rig):
    rig.execute(1)
    rig.answer(allowed=8)
    rig.execute(2)
    rig.execute(3)
    assert rig.sent == [[1], [2], [3]] and rig.deferred == [False, True, True]


def test_a_free_place_in_the_window_is_filled_at_once(rig):
    rig.execute(*range(1, 4 * BATCH + 1))
    assert len(rig.sent) == 1
    rig.answer(allowed=2)
    assert len(rig.sent) == 3
    rig.answer()
    assert [number for each in rig.sent for number in each] == list(range(1, 4 * BATCH + 1))


def test_more_than_one_read_is_needed_for_a_full_outbox(rig):
    rig.execute(*range(1, 2 * READ + 1))
    while rig.outbox:
        rig.answer(allowed=4)
    assert [number for each in rig.sent for number in each] == list(range(1, 2 * READ + 1))


def test_unanswered_entries_are_sent_again_in_order_after_a_stale_connection(rig):
    rig.execute(1)
    rig.answer(allowed=8)
    rig.execute(2)
    rig.execute(3)
    rig.do(on.Disconnected("reset", stale=True))
    assert rig.sent == [[1], [2], [3], [2, 3]] and rig.connections == 2 and rig.pauses == []


def test_an_idle_connection_that_ends_is_not_a_failure(rig):
    rig.execute(1)
    rig.answer()
    rig.do(on.Disconnected("reset"))
    rig.execute(2)
    assert rig.sent == [[1], [2]] and rig.connections == 2 and rig.reports == ["ok"]


def test_a_refusal_closes_the_connection_and_everything_after_it_is_sent_again(rig):
    rig.execute(1)
    rig.answer(allowed=8)
    rig.execute(2)
    rig.execute(3)
    rig.answer(status=409)
    assert rig.closed == 1 and rig.sent == [[1], [2], [3]] and rig.reports == ["ok", "failed"]
    rig.end_pause()
    assert rig.sent[3:] == [[2, 3]] and rig.deferred[3:] == [False]


def test_a_broker_that_registers_again_ends_the_pause(rig):
    rig.refusing = True
    rig.execute(1)
    assert len(rig.pauses) == 1
    rig.refusing = False
    rig.do(on.Wake(returned=True))
    assert rig.sent == [[1]]
    rig.do(on.PauseEnded(rig.pauses[0].id))
    assert rig.sent == [[1]]


def test_new_entries_do_not_end_the_pause(rig):
    rig.refusing = True
    rig.execute(1)
    rig.execute(2)
    assert rig.connections == 1


def test_a_broker_is_given_up_exactly_after_the_time_of_the_policy(rig):
    rig.refusing = True
    rig.execute(1)
    while not rig.given_up:
        assert rig.now < 11.0
        rig.end_pause()
    assert rig.now >= 10.0 and rig.outbox == [] and rig.reports[-1] == "gone"


def test_410_gives_a_broker_up_at_once(rig):
    rig.execute(1, 2)
    rig.answer(status=410)
    assert rig.given_up == 1 and rig.pauses == []


def test_a_broker_that_returns_while_it_is_given_up_is_notified_again():
    dispatch = Dispatch(RetryPolicy(0.0, Random(1)))
    dispatch.handle(on.Wake(), 0.0)
    dispatch.handle(on.OutboxRead([entry(1)], BROKER), 0.0)
    dispatch.handle(on.BatchMade(1, b"1,"), 0.0)
    assert dispatch.handle(on.Disconnected("refused"), 0.0)[-1] == on.GiveUp(BROKER)
    assert dispatch.handle(on.Wake(returned=True), 0.0) == []
    assert dispatch.handle(on.GaveUp(), 0.0) == [on.ReadOutbox(READ)]


def test_a_gone_broker_gets_no_requests(rig):
    rig.broker = Broker(1, "b", "http://b/notify", "gone")
    rig.execute(1)
    assert rig.sent == [] and rig.connections == 0


def test_unanswered_entries_follow_a_broker_to_its_new_address(rig):
    rig.execute(1)
    rig.answer(allowed=8)
    rig.execute(2)
    rig.broker = Broker(1, "b", "http://elsewhere/notify")
    rig.execute(3)
    assert rig.closed == 1 and rig.connections == 2 and rig.sent == [[1], [2], [2, 3]]


def test_a_batch_ends_with_the_entry_that_makes_it_too_large():
    entries = [entry(number) for number in range(5)]
    large = b"x" * (on.BATCH_BYTES + 1)
    made = make_batch(entries, lambda each: None if each.execution == 0 else large if each.execution == 2 else b"y")
    assert made == on.BatchMade(3, b"[y," + large + b"]")
    assert make_batch(entries[:1], lambda each: None) == on.BatchMade(1, None)


STEPS = ("execute", "broker takes", "answer", "refuse", "end", "stale")
STEPS += ("pause ends", "read", "made", "connect", "deleted")


@given(st.lists(st.sampled_from(STEPS), max_size=150))
def test_a_broker_gets_every_entry_in_order_despite_failures(steps):
    """The broker takes requests in order, nothing after one that it refuses, and drops what it knows."""
    dispatch = Dispatch(RetryPolicy(1e9, Random(1)))
    outbox: list[OutboxEntry] = []
    pending: list[Any] = []  # instructions without their event
    wire: list[list[int]] = []  # posted on the present connection, not taken yet
    owed, newest, taken, executed, answered = 0, 0, list[int](), 0, set[int]()

    def do(event: on.Event) -> None:
        for it in dispatch.handle(event, 0.0):
            if isinstance(it, on.Post):
                wire.append(executions(it.body))
            elif isinstance(it, on.Close):
                wire.clear()
            elif isinstance(it, on.Delete):
                assert {each.execution for each in it.entries} <= answered
                pending.append(it)
            elif not isinstance(it, on.Report):
                pending.append(it)

    def answer_to(kind: type) -> Any:
        found = next((each for each in pending if isinstance(each, kind)), None)
        if found is not None:
            pending.remove(found)
        return found

    def step(what: str) -> None:
        nonlocal owed, newest, executed
        if what == "execute":
            executed += 1
            outbox.append(entry(executed))
            do(on.Wake())
        elif what == "broker takes" and len(wire) > owed:
            for number in wire[owed]:
                if number > newest:
                    assert number == newest + 1
                    newest = number
                    taken.append(number)
            owed += 1
        elif what == "answer" and owed:
            owed -= 1
            answered.update(wire.pop(0))
            do(on.Answered(204, 4))
        elif what == "refuse" and wire and not owed:
            do(on.Answered(503))
        elif what in ("end", "stale"):
            wire.clear()
            owed = 0
            if not any(isinstance(each, on.Connect) for each in pending):
                do(on.Disconnected("reset", stale=what == "stale"))
        elif what == "pause ends" and (it := answer_to(on.Pause)):
            do(on.PauseEnded(it.id))
        elif what == "read" and (it := answer_to(on.ReadOutbox)):
            do(on.OutboxRead([each for each in outbox if each not in it.known][: it.limit], BROKER))
        elif what == "made" and (it := answer_to(on.MakeBatch)):
            entries = list(it.entries)[:3]
            do(on.BatchMade(len(entries), body(entries)))
        elif what == "connect" and answer_to(on.Connect):
            do(on.Connected())
        elif what == "deleted" and (it := answer_to(on.Delete)):
            for each in it.entries:
                outbox.remove(each)
            do(on.Deleted(it.entries))

    for each in steps:
        step(each)
    for _ in range(20 * executed + 20):
        if not outbox:
            break
        for each in ("pause ends", "read", "made", "connect", "broker takes", "answer", "deleted"):
            step(each)
    assert not outbox and taken == list(range(1, executed + 1))
