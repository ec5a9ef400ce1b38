"""Telling brokers over real HTTP, from a real outbox."""

from __future__ import annotations

import random
import threading

import pytest
from telling_office import WAIT, Office, encode

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify.notifier import AT_ONCE, AT_ONCE_BYTES
from tocsin.errors import StorageError


def test_a_broker_is_told_in_order_and_the_outbox_is_emptied(office: Office) -> None:
    broker, listener = office.listen("b")
    with office.teller() as teller:
        numbers = [office.execute(broker) for _ in range(250)]
        teller.wake([broker.id])
        assert listener.wait(250) == [(office.channel.id, number) for number in numbers]
        office.wait_empty(broker)
        assert office.watched.transactions < 250


def test_what_has_gathered_is_told_together_up_to_a_bound(office: Office) -> None:
    broker, listener = office.listen("b")
    numbers = [office.execute(broker) for _ in range(2 * AT_ONCE + 1)]
    with office.teller():
        assert [number for _, number in listener.wait(len(numbers))] == numbers
        office.wait_empty(broker)
        assert listener.requests == 3


def test_a_large_message_ends_what_is_told_together(office: Office) -> None:
    broker, listener = office.listen("b")
    numbers = [office.execute(broker) for _ in range(3)]

    def message(broker: Broker, tell: OutboxEntry) -> bytes:
        return encode(broker, tell) + b" " * AT_ONCE_BYTES

    with office.teller(message):
        assert [number for _, number in listener.wait(3)] == numbers
        office.wait_empty(broker)
        assert listener.requests == 3


def test_what_was_left_to_tell_is_told_after_a_start(office: Office) -> None:
    broker, listener = office.listen("b")
    office.execute(broker)
    with office.teller():
        listener.wait(1)
        office.wait_empty(broker)


def test_a_teller_can_be_stopped_and_started_again(office: Office) -> None:
    broker, listener = office.listen("b")
    with office.teller() as teller:
        teller.stop()
        teller.stop()
        office.execute(broker)
        teller.wake([broker.id])
        assert listener.requests == 0
        teller.start()
        teller.start()
        listener.wait(1)


@pytest.mark.parametrize("code", [301, 400, 404, 408, 425, 429, 500, 503])
def test_any_other_answer_than_success_is_tried_again(office: Office, code: int) -> None:
    broker, listener = office.listen("b", code, code, code)
    with office.teller() as teller:
        first, second = office.execute(broker), office.execute(broker)
        teller.wake([broker.id])
        assert [number for _, number in listener.wait(2)] == [first, second]
        office.wait_empty(broker)
        assert listener.requests == 4
        assert office.gone == []
        assert teller.status()[broker.id]["last_success"] == 77.0
        assert teller.status()[broker.id]["failures"] == 0


@pytest.mark.parametrize("answer", [200, 202, 204])
def test_every_2xx_is_an_answer(office: Office, answer: int) -> None:
    broker, listener = office.listen("b", answer)
    with office.teller() as teller:
        office.execute(broker)
        teller.wake([broker.id])
        office.wait_empty(broker)
        assert listener.requests == 1


def test_a_dead_broker_does_not_delay_another(office: Office) -> None:
    dead = office.broker("dead", office.dead_url())
    alive, listener = office.listen("alive")
    with office.teller() as teller:
        for _ in range(20):
            office.execute(dead, alive)
            teller.wake([dead.id, alive.id])
        listener.wait(20)
        office.wait_empty(alive)
        assert len(office.catalog.tells(dead.id)) == 20


def test_a_hanging_broker_does_not_delay_another(office: Office) -> None:
    release = threading.Event()
    hanging, stuck = office.listen("hanging", lambda: 200 if release.wait(WAIT) else 500)
    alive, listener = office.listen("alive")
    with office.teller() as teller:
        office.execute(hanging, alive)
        teller.wake([hanging.id, alive.id])
        stuck.wait_requests(1)
        for _ in range(20):
            office.execute(alive)
            teller.wake([alive.id])
        listener.wait(21)
        assert stuck.told == []
        release.set()
        stuck.wait(1)


def test_a_hanging_broker_is_given_up_after_the_time_out_and_tried_again(office: Office) -> None:
    release = threading.Event()
    broker, listener = office.listen("b", lambda: 500 + release.wait(WAIT))
    with office.teller(timeout=0.3) as teller:
        office.execute(broker)
        teller.wake([broker.id])
        listener.wait(1)
        release.set()


def test_a_slow_message_for_one_broker_does_not_delay_another(office: Office) -> None:
    slow, slow_listener = office.listen("slow")
    alive, listener = office.listen("alive")
    release, reached = threading.Event(), threading.Event()

    def message(broker: Broker, tell: OutboxEntry) -> bytes:
        if broker.id == slow.id:
            reached.set()
            release.wait(WAIT)
        return encode(broker, tell)

    with office.teller(message) as teller:
        office.execute(slow, alive)
        teller.wake([slow.id, alive.id])
        assert reached.wait(WAIT)
        listener.wait(1)
        assert slow_listener.requests == 0
        release.set()
        slow_listener.wait(1)


def test_a_flapping_broker_gets_everything_in_order_and_is_not_gone(office: Office) -> None:
    broker, listener = office.listen("b", *[500, 200] * 10)
    with office.teller(gone_after=3.0) as teller:
        numbers = [office.execute(broker) for _ in range(10)]
        teller.wake([broker.id])
        assert [number for _, number in listener.wait(10)] == numbers
        office.wait_empty(broker)
        assert office.gone == []


def test_a_broker_that_stays_silent_is_declared_gone_and_forgotten(office: Office) -> None:
    broker = office.broker("b", office.dead_url())
    with office.teller(gone_after=5.0) as teller:
        office.execute(broker)
        teller.wake([broker.id])
        office.wait_empty(broker)
        assert office.gone == ["b"]
        assert office.clock == 6.0


def test_410_means_gone_at_once(office: Office) -> None:
    broker, listener = office.listen("b", 410)
    office.execute(broker)
    office.execute(broker)
    with office.teller():
        office.wait_empty(broker)
        assert office.gone == ["b"]
        assert listener.requests == 1


def test_a_broker_that_is_gone_is_left_alone_until_it_returns(office: Office) -> None:
    broker, listener = office.listen("b", 410)
    other, other_listener = office.listen("other")
    with office.teller() as teller:
        office.execute(broker)
        teller.wake([broker.id])
        office.wait_empty(broker)
        number = office.execute(broker, other)
        teller.wake([broker.id, other.id])
        other_listener.wait(1)
        assert listener.requests == 1
        office.catalog.replace(broker)
        teller.wake([broker.id], returned=True)
        assert listener.wait(1) == [(office.channel.id, number)]


def test_a_broker_that_returns_is_not_kept_waiting_by_its_backoff(office: Office) -> None:
    failed = threading.Event()
    broker, listener = office.listen("b", 500)
    with office.teller(min_backoff=1e6, max_backoff=1e6, rng=_Announcing(failed)) as teller:
        office.execute(broker)
        teller.wake([broker.id])
        assert failed.wait(WAIT)
        teller.wake([broker.id], returned=True)
        listener.wait(1)


class _Announcing(random.Random):
    """Says when the teller computes a backoff."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(1)
        self.event = event

    def uniform(self, a: float, b: float) -> float:
        self.event.set()
        return super().uniform(a, b)


def test_the_new_address_of_a_broker_is_used_at_the_next_try(office: Office) -> None:
    broker = office.broker("b", office.dead_url())
    _, listener = office.listen("new")
    with office.teller() as teller:
        office.execute(broker)
        teller.wake([broker.id])
        office.catalog.replace(Broker(broker.id, "b", listener.url))
        listener.wait(1)
        office.wait_empty(broker)


@pytest.mark.parametrize("url", ["http://", "nonsense", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "http://[::1"])
def test_an_address_that_cannot_be_used_is_a_failure_like_another(office: Office, url: str) -> None:
    broker = office.broker("b", url)
    alive, listener = office.listen("alive")
    with office.teller(gone_after=2.0) as teller:
        office.execute(broker, alive)
        teller.wake([broker.id, alive.id])
        office.wait_empty(broker)
        listener.wait(1)
        assert office.gone == ["b"]


def test_nothing_to_tell_any_more_is_settled_without_a_request(office: Office) -> None:
    broker, listener = office.listen("b")
    with office.teller(lambda broker, tell: encode(broker, tell) if tell.execution == 2 else None) as teller:
        office.execute(broker)
        office.execute(broker)
        teller.wake([broker.id])
        office.wait_empty(broker)
        assert listener.told == [(office.channel.id, 2)]


def test_trouble_with_a_message_is_not_the_brokers_fault(office: Office) -> None:
    broker, listener = office.listen("b")
    troubles = [StorageError("a segment is missing"), KeyError("a mistake")] * 3

    def message(broker: Broker, tell: OutboxEntry) -> bytes:
        if troubles:
            raise troubles.pop()
        return encode(broker, tell)

    with office.teller(message, gone_after=0.0) as teller:
        office.execute(broker)
        teller.wake([broker.id])
        listener.wait(1)
        assert office.gone == []


def test_trouble_with_the_catalog_does_not_tell_twice(office: Office) -> None:
    broker, listener = office.listen("b")
    office.watched.faults = 3
    with office.teller() as teller:
        office.execute(broker)
        teller.wake([broker.id])
        office.wait_empty(broker)
        assert listener.requests == 1


def test_the_status_says_what_is_pending_and_why(office: Office) -> None:
    failed = threading.Event()
    broker, _ = office.listen("b", 503)
    office.execute(broker)
    office.execute(broker)
    with office.teller(min_backoff=1e6, max_backoff=1e6, rng=_Announcing(failed)) as teller:
        assert failed.wait(WAIT)
        status = teller.status()[broker.id]
    assert (status["pending"], status["failures"], status["last_success"]) == (2, 1, None)
    assert "503" in status["last_error"]


def test_waking_an_unknown_broker_does_nothing(office: Office) -> None:
    broker, listener = office.listen("b")
    with office.teller() as teller:
        office.execute(broker)
        teller.wake([999_999, broker.id])
        listener.wait(1)
        assert office.gone == []
