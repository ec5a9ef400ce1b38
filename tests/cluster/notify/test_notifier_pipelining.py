"""Requests sent before the broker has answered: unanswered entries stay in the outbox, in order."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from outbox_lab import WAIT, OutboxLab

from tocsin.cluster.model import Broker
from tocsin.cluster.notify.dispatch import BATCH
from tocsin.cluster.notify.notifier import Notifier
from tocsin.cluster.notify.send_window import REQUESTS

DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
REFUSED = b"HTTP/1.1 409 Conflict\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def allowing(count: int) -> bytes:
    return b"HTTP/1.1 204 No Content\r\ntocsin-unanswered: %d\r\n\r\n" % count


class Slow:
    """A broker that takes and answers when the test says so."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/notify"
        self.later: list[bool] = []
        self.requests = 0

    def accept(self) -> None:
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(WAIT)
        self.file = self.socket.makefile("rb")

    def take(self, executions: int) -> list[int]:
        """Exactly ``count`` entries, in any number of requests."""
        found: list[int] = []
        while len(found) < executions:
            fields = dict(line.lower().split(": ") for line in self._head())
            body = json.loads(self.file.read(int(fields["content-length"])))
            found += [each["execution"] for each in (body if isinstance(body, list) else [body])]
            self.later.append(fields.get("tocsin-answer") == "later")
            self.requests += 1
        assert len(found) == executions
        return found

    def _head(self) -> Iterator[str]:
        assert self.file.readline() == b"POST /notify HTTP/1.1\r\n"
        while line := self.file.readline().decode().strip():
            yield line

    def silent(self) -> bool:
        """Nothing more is on its way: everything sent before a received request has arrived too."""
        self.socket.setblocking(False)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(WAIT)

    def answer(self, *answers: bytes) -> None:
        self.socket.sendall(b"".join(answers))

    def cut(self) -> None:
        self.file.close()
        self.socket.close()

    def close(self) -> None:
        self.cut()
        self.listener.close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    found = Slow()
    yield found
    found.close()


@pytest.fixture
def broker(lab: OutboxLab, slow: Slow) -> Broker:
    return lab.broker("slow", slow.url)


def unconfirmed(lab: OutboxLab, broker: Broker) -> list[int]:
    return [entry.execution for entry in lab.catalog.outbox(broker.id)]


def allowed(notifier: Notifier, lab: OutboxLab, broker: Broker, slow: Slow, count: int = REQUESTS) -> None:
    """The broker has answered one notification and allows more requests ahead of its answers."""
    number = lab.execute(broker)
    notifier.wake([broker.id])
    slow.accept()
    assert slow.take(1) == [number]
    slow.answer(allowing(count))
    lab.wait_empty(broker)


def test_new_entries_are_sent_before_an_answer_and_stay_in_the_outbox(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        numbers = []
        for _ in range(5):
            numbers.append(lab.execute(broker))
            notifier.wake([broker.id])
            assert slow.take(1) == numbers[-1:]
        assert unconfirmed(lab, broker) == numbers
        assert notifier.status()[broker.id]["pending"] == 5
        slow.answer(DONE, DONE)
        with lab.settled:
            assert lab.settled.wait_for(lambda: unconfirmed(lab, broker) == numbers[2:], WAIT)
        slow.answer(DONE * 3)
        lab.wait_empty(broker)
        assert slow.requests == 6 and slow.later == [False, *[True] * 5]


def test_a_broker_that_allows_nothing_is_notified_one_at_a_time(lab, slow, broker):
    numbers = lab.execute_together(broker, 2 * BATCH)
    with lab.notifier():
        slow.accept()
        assert slow.take(BATCH) == numbers[:BATCH]
        slow.answer(DONE)
        assert slow.take(BATCH) == numbers[BATCH:]
        slow.answer(DONE)
        lab.wait_empty(broker)
        assert slow.later == [False, False]


def test_the_broker_limits_the_unanswered_requests(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow, 2)
        numbers = lab.execute_together(broker, 4 * BATCH)
        notifier.wake([broker.id])
        assert slow.take(2 * BATCH) == numbers[: 2 * BATCH]
        slow.answer(DONE)
        assert slow.take(BATCH) == numbers[2 * BATCH : 3 * BATCH]
        assert slow.silent()
        slow.answer(DONE * 2)
        assert slow.take(BATCH) == numbers[3 * BATCH :]
        slow.answer(DONE)
        lab.wait_empty(broker)


def test_a_broken_connection_sends_unanswered_entries_again(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        numbers = lab.execute_together(broker, 3 * BATCH)
        notifier.wake([broker.id])
        slow.take(3 * BATCH)
        slow.answer(DONE, DONE[:10])
        with lab.settled:
            assert lab.settled.wait_for(lambda: unconfirmed(lab, broker) == numbers[BATCH:], WAIT)
        slow.cut()
        slow.accept()
        assert slow.take(BATCH) == numbers[BATCH : 2 * BATCH]
        assert not slow.later[-1]  # the limit of a new connection is not known yet
        slow.answer(DONE)
        assert slow.take(BATCH) == numbers[2 * BATCH :]
        slow.answer(DONE)
        lab.wait_empty(broker)


def test_a_refused_request_is_sent_again_with_all_after_it(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        numbers = lab.execute_together(broker, 3 * BATCH)
        notifier.wake([broker.id])
        slow.take(3 * BATCH)
        slow.answer(DONE, REFUSED)
        slow.accept()
        assert slow.take(BATCH) == numbers[BATCH : 2 * BATCH]
        slow.answer(allowing(8))
        assert slow.take(BATCH) == numbers[2 * BATCH :]
        slow.answer(DONE)
        lab.wait_empty(broker)


def test_a_missing_answer_times_out(lab, slow, broker):
    with lab.notifier(timeout=1.0) as notifier:
        number = lab.execute(broker)
        notifier.wake([broker.id])
        for _ in range(2):
            slow.accept()
            assert slow.take(1) == [number]
        assert unconfirmed(lab, broker) == [number]


def test_an_unexpected_answer_ends_the_connection(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        slow.answer(DONE)
        assert slow.file.read() == b""
        number = lab.execute(broker)
        notifier.wake([broker.id])
        slow.accept()
        assert slow.take(1) == [number]
        slow.answer(DONE)
        lab.wait_empty(broker)


def test_unanswered_entries_are_sent_to_the_new_address_of_a_broker(lab, slow, broker):
    _, listener = lab.listen("new")
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        first = lab.execute(broker)
        notifier.wake([broker.id])
        assert slow.take(1) == [first]
        lab.catalog.replace(Broker(broker.id, broker.name, listener.url))
        second = lab.execute(broker)
        notifier.wake([broker.id])
        assert [number for _, number in listener.wait(2)] == [first, second]
        lab.wait_empty(broker)


def test_unanswered_entries_are_sent_again_after_the_next_start(lab, slow, broker):
    with lab.notifier() as notifier:
        allowed(notifier, lab, broker, slow)
        numbers = lab.execute_together(broker, BATCH)
        notifier.wake([broker.id])
        assert slow.take(BATCH) == numbers
    with lab.notifier():
        slow.accept()
        assert slow.take(BATCH) == numbers
        slow.answer(DONE)
        lab.wait_empty(broker)
