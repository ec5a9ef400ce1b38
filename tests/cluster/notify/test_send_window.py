"""What is on its way to a broker: bounded, in order, and notified again where it is not known whether it was heard."""

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


def test_nothing_follows_too_many_bytes():
    window = SendWindow()
    window.allow(REQUESTS)
    window.sent([entry(1)], BYTES)
    assert not window.room
    window.answered()
    assert window.room


def test_nothing_follows_while_too_much_is_still_in_the_outbox():
    window = SendWindow()
    entries = [entry(number) for number in range(ENTRIES)]
    window.sent(entries, 1)
    assert window.answered() == entries
    assert not window.room
    window.deleted(entries)
    assert window.room


def test_what_is_answered_is_not_notified_again_though_the_outbox_has_it():
    window = SendWindow()
    window.sent([entry(1)], 1)
    window.answered()
    window.lost()
    assert window.entries == {entry(1)}


def test_what_is_lost_is_notified_again_and_the_broker_has_to_allow_again():
    window = SendWindow()
    window.allow(8)
    window.sent([entry(1), entry(2)], BYTES)
    assert window.unanswered == 2
    window.lost()
    assert not window.entries and not window and window.unanswered == 0
    assert window.limit == 1 and window.room


class Broker:
    """Hears each connection from its beginning, drops by its number what it knows, and answers when it likes."""

    def __init__(self) -> None:
        self.newest, self.heard = 0, list[int]()

    def take(self, entries: list[OutboxEntry]) -> None:
        for each in entries:
            if each.execution > self.newest:
                self.newest = each.execution
                self.heard.append(each.execution)


@given(
    st.lists(st.sampled_from(["execute", "entry", "hear", "answer", "settle", "lose"]), max_size=200), st.integers(1, 5)
)
def test_whatever_is_lost_a_broker_takes_everything_once_and_in_order(steps, at_once):
    window, broker, outbox, answered = SendWindow(), Broker(), list[OutboxEntry](), list[list[OutboxEntry]]()
    # Requests on their way, and those that were heard and not answered, by connection: the last is in use.
    wires: list[tuple[list[list[OutboxEntry]], list[list[OutboxEntry]]]] = [([], [])]
    executed = 0

    def step(what: str) -> None:
        nonlocal executed
        on_their_way, heard = wires[-1]
        if what == "execute":
            executed += 1
            outbox.append(entry(executed))
        elif what == "entry" and window.room:
            entries = [each for each in outbox if each not in window.entries][:at_once]
            if entries:
                window.sent(entries, len(entries))
                on_their_way.append(entries)
        elif what == "hear":
            # A connection that was given up may still be read from.
            for requests, done in wires:
                if requests:
                    done.append(requests.pop(0))
                    broker.take(done[-1])
                    break
        elif what == "answer" and heard:
            window.allow(4)
            assert window.answered() == heard[0]
            answered.append(heard.pop(0))
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
        for each in ("entry", "hear", "answer", "settle"):
            step(each)
    assert broker.heard == list(range(1, executed + 1))
