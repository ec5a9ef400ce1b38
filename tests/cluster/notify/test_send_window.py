"""Entries in flight to a broker are bounded and in order, and are sent again when their answer is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.model import OutboxEntry
from tocsin.cluster.notify.send_window import BYTES, ENTRIES, REQUESTS, SendWindow


def entry(number: int) -> OutboxEntry:
    return OutboxEntry(1, 2, number)


def test_one_request_may_be_unanswered_until_the_broker_allows_more():
    window = SendWindow()
    assert window.room and not window
    window.sent([entry(1)], 10)
    assert not window.room and window
    window.allow(2)
    assert window.room
    window.sent([entry(2)], 10)
    assert not window.room


def test_a_broker_that_allows_too_much_or_nothing_is_notified_within_bounds():
    window = SendWindow()
    window.allow(10**9)
    assert window.limit == REQUESTS
    window.allow(0)
    assert window.limit == 1


def test_too_many_unanswered_bytes_close_the_window():
    window = SendWindow()
    window.allow(REQUESTS)
    window.sent([entry(1)], BYTES)
    assert not window.room
    window.answered()
    assert window.room


def test_too_many_entries_in_the_outbox_close_the_window():
    window = SendWindow()
    entries = [entry(number) for number in range(ENTRIES)]
    window.sent(entries, 1)
    assert window.answered() == entries
    assert not window.room
    window.deleted(entries)
    assert window.room


def test_an_answered_entry_in_the_outbox_is_not_sent_again():
    window = SendWindow()
    window.sent([entry(1)], 1)
    window.answered()
    window.lost()
    assert window.entries == {entry(1)}


def test_lost_entries_are_sent_again_and_the_limit_starts_at_one():
    window = SendWindow()
    window.allow(8)
    window.sent([entry(1), entry(2)], BYTES)
    assert window.unanswered == 2
    window.lost()
    assert not window.entries and not window and window.unanswered == 0
    assert window.limit == 1 and window.room


class Broker:
    """Reads each connection from its beginning, drops entries that it knows, and answers at any time."""

    def __init__(self) -> None:
        self.newest, self.received = 0, list[int]()

    def take(self, entries: list[OutboxEntry]) -> None:
        for each in entries:
            if each.execution > self.newest:
                self.newest = each.execution
                self.received.append(each.execution)


@given(
    st.lists(st.sampled_from(["execute", "entry", "receive", "answer", "settle", "lose"]), max_size=200),
    st.integers(1, 5),
)
def test_a_broker_takes_every_entry_once_and_in_order_despite_losses(steps, at_once):
    window, broker, outbox, answered = SendWindow(), Broker(), list[OutboxEntry](), list[list[OutboxEntry]]()
    # By connection: requests in flight, and requests received but not answered. The last connection is in use.
    wires: list[tuple[list[list[OutboxEntry]], list[list[OutboxEntry]]]] = [([], [])]
    executed = 0

    def step(what: str) -> None:
        nonlocal executed
        in_flight, received = wires[-1]
        if what == "execute":
            executed += 1
            outbox.append(entry(executed))
        elif what == "entry" and window.room:
            entries = [each for each in outbox if each not in window.entries][:at_once]
            if entries:
                window.sent(entries, len(entries))
                in_flight.append(entries)
        elif what == "receive":
            # A connection that was given up may still be read from.
            for requests, done in wires:
                if requests:
                    done.append(requests.pop(0))
                    broker.take(done[-1])
                    break
        elif what == "answer" and received:
            window.allow(4)
            assert window.answered() == received[0]
            answered.append(received.pop(0))
        elif what == "settle" and answered:
            for each in answered[0]:
                outbox.remove(each)
            window.deleted(answered.pop(0))
        elif what == "lose":
            window.lost()
            wires.append(([], []))

    for each in steps:
        step(each)
        assert window.entries <= set(outbox)
    while outbox:
        for each in ("entry", "receive", "answer", "settle"):
            step(each)
    assert broker.received == list(range(1, executed + 1))
