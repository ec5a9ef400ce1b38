"""What is on its way to a broker: bounded, in order, and told again where nobody knows whether it was heard."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.model import OutboxEntry
from tocsin.cluster.notify.send_window import BYTES, REQUESTS, TELLS, SendWindow


def tell(number: int) -> OutboxEntry:
    return OutboxEntry(1, 2, number)


def test_one_request_may_be_unanswered_until_the_broker_allows_more():
    flight = SendWindow()
    assert flight.room and not flight
    flight.sent([tell(1)], 10)
    assert not flight.room and flight
    flight.allow(2)
    assert flight.room
    flight.sent([tell(2)], 10)
    assert not flight.room


def test_a_broker_that_allows_too_much_or_nothing_is_told_within_bounds():
    flight = SendWindow()
    flight.allow(10**9)
    assert flight.window == REQUESTS
    flight.allow(0)
    assert flight.window == 1


def test_nothing_follows_too_many_bytes():
    flight = SendWindow()
    flight.allow(REQUESTS)
    flight.sent([tell(1)], BYTES)
    assert not flight.room
    flight.answered()
    assert flight.room


def test_nothing_follows_while_too_much_is_still_in_the_outbox():
    flight = SendWindow()
    tells = [tell(number) for number in range(TELLS)]
    flight.sent(tells, 1)
    assert flight.answered() == tells
    assert not flight.room
    flight.settled(tells)
    assert flight.room


def test_what_is_answered_is_not_told_again_though_the_outbox_has_it():
    flight = SendWindow()
    flight.sent([tell(1)], 1)
    flight.answered()
    flight.lost()
    assert flight.aloft == {tell(1)}


def test_what_is_lost_is_told_again_and_the_broker_has_to_allow_anew():
    flight = SendWindow()
    flight.allow(8)
    flight.sent([tell(1), tell(2)], BYTES)
    assert flight.unanswered == 2
    flight.lost()
    assert not flight.aloft and not flight and flight.unanswered == 0
    assert flight.window == 1 and flight.room


class Broker:
    """Hears each connection from its beginning, drops by its number what it knows, and answers when it likes."""

    def __init__(self) -> None:
        self.newest, self.heard = 0, list[int]()

    def hear(self, tells: list[OutboxEntry]) -> None:
        for each in tells:
            if each.execution > self.newest:
                self.newest = each.execution
                self.heard.append(each.execution)


@given(
    st.lists(st.sampled_from(["execute", "tell", "hear", "answer", "settle", "lose"]), max_size=200), st.integers(1, 5)
)
def test_whatever_is_lost_a_broker_hears_everything_once_and_in_order(steps, at_once):
    flight, broker, outbox, answered = SendWindow(), Broker(), list[OutboxEntry](), list[list[OutboxEntry]]()
    # Requests on their way, and those that were heard and not answered, by connection: the last is in use.
    wires: list[tuple[list[list[OutboxEntry]], list[list[OutboxEntry]]]] = [([], [])]
    executed = 0

    def step(what: str) -> None:
        nonlocal executed
        on_their_way, heard = wires[-1]
        if what == "execute":
            executed += 1
            outbox.append(tell(executed))
        elif what == "tell" and flight.room:
            tells = [each for each in outbox if each not in flight.aloft][:at_once]
            if tells:
                flight.sent(tells, len(tells))
                on_their_way.append(tells)
        elif what == "hear":
            # A connection that was given up may still be read from.
            for requests, done in wires:
                if requests:
                    done.append(requests.pop(0))
                    broker.hear(done[-1])
                    break
        elif what == "answer" and heard:
            flight.allow(4)
            assert flight.answered() == heard[0]
            answered.append(heard.pop(0))
        elif what == "settle" and answered:
            for each in answered[0]:
                outbox.remove(each)
            flight.settled(answered.pop(0))
        elif what == "lose":
            flight.lost()
            wires.append(([], []))

    for each in steps:
        step(each)
        assert flight.aloft <= set(outbox)
    while outbox:
        for each in ("tell", "hear", "answer", "settle"):
            step(each)
    assert broker.heard == list(range(1, executed + 1))
