"""Notifying brokers over real HTTP, from a real outbox."""

from __future__ import annotations

import random
import threading

import pytest
from outbox_lab import WAIT, OutboxLab, encode

from tocsin.cluster.model import Broker, Channel, Execution, OutboxEntry
from tocsin.cluster.notify.dispatch import BATCH, BATCH_BYTES, READ
from tocsin.errors import StorageError
from tocsin.identity.part_keys import LIFETIME


def test_a_broker_is_notified_in_order_and_the_outbox_is_emptied(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    with lab.notifier() as notifier:
        numbers = [lab.execute(broker) for _ in range(250)]
        notifier.wake([broker.id])
        assert listener.wait(250) == [(lab.channel.id, number) for number in numbers]
        lab.wait_empty(broker)
        assert lab.watched.transactions < 250


def test_pending_entries_are_notified_in_bounded_batches(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    numbers = [lab.execute(broker) for _ in range(2 * BATCH + 1)]
    with lab.notifier():
        assert [number for _, number in listener.wait(len(numbers))] == numbers
        lab.wait_empty(broker)
        assert listener.requests == 3


def test_a_large_message_ends_a_batch(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    numbers = [lab.execute(broker) for _ in range(3)]

    def message(broker: Broker, entry: OutboxEntry) -> bytes:
        return encode(broker, entry) + b" " * BATCH_BYTES

    with lab.notifier(message):
        assert [number for _, number in listener.wait(3)] == numbers
        lab.wait_empty(broker)
        assert listener.requests == 3


def test_a_connection_proves_its_sender_again_before_that_expires(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    with lab.notifier(token_for=lambda name: f"token-for-{name}") as notifier:
        for number, later in enumerate((0.0, 0.0, LIFETIME), 1):
            lab.clock += later
            lab.execute(broker)
            notifier.wake([broker.id])
            listener.wait(number)
            lab.wait_empty(broker)
    assert listener.tokens == ["token-for-b", None, "token-for-b"]


def test_entries_from_before_the_start_are_notified(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    lab.execute(broker)
    with lab.notifier():
        listener.wait(1)
        lab.wait_empty(broker)


def test_a_notifier_can_be_stopped_and_started_again(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    with lab.notifier() as notifier:
        notifier.stop()
        notifier.stop()
        lab.execute(broker)
        notifier.wake([broker.id])
        assert listener.requests == 0
        notifier.start()
        notifier.start()
        listener.wait(1)


@pytest.mark.parametrize("code", [301, 400, 404, 408, 425, 429, 500, 503])
def test_any_answer_but_success_is_retried(lab: OutboxLab, code: int) -> None:
    broker, listener = lab.listen("b", code, code, code)
    with lab.notifier() as notifier:
        first, second = lab.execute(broker), lab.execute(broker)
        notifier.wake([broker.id])
        assert [number for _, number in listener.wait(2)] == [first, second]
        lab.wait_empty(broker)
        assert listener.requests == 4
        assert lab.gone == []
        assert notifier.status()[broker.id]["failures"] == 0


@pytest.mark.parametrize("answer", [200, 202, 204])
def test_every_2xx_is_a_success(lab: OutboxLab, answer: int) -> None:
    broker, listener = lab.listen("b", answer)
    with lab.notifier() as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.wait_empty(broker)
        assert listener.requests == 1


def test_a_dead_broker_does_not_delay_another(lab: OutboxLab) -> None:
    dead = lab.broker("dead", lab.dead_url())
    alive, listener = lab.listen("alive")
    with lab.notifier() as notifier:
        for _ in range(20):
            lab.execute(dead, alive)
            notifier.wake([dead.id, alive.id])
        listener.wait(20)
        lab.wait_empty(alive)
        assert len(lab.catalog.outbox(dead.id)) == 20


def test_a_hanging_broker_does_not_delay_another(lab: OutboxLab) -> None:
    release = threading.Event()
    hanging, stuck = lab.listen("hanging", lambda: 200 if release.wait(WAIT) else 500)
    alive, listener = lab.listen("alive")
    with lab.notifier() as notifier:
        lab.execute(hanging, alive)
        notifier.wake([hanging.id, alive.id])
        stuck.wait_requests(1)
        for _ in range(20):
            lab.execute(alive)
            notifier.wake([alive.id])
        listener.wait(21)
        assert stuck.notified == []
        release.set()
        stuck.wait(1)


def test_a_request_to_a_hanging_broker_times_out_and_is_retried(lab: OutboxLab) -> None:
    release = threading.Event()
    broker, listener = lab.listen("b", lambda: 500 + release.wait(WAIT))
    with lab.notifier(timeout=0.3) as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        listener.wait(1)
        release.set()


def test_a_slow_message_for_one_broker_does_not_delay_another(lab: OutboxLab) -> None:
    slow, slow_listener = lab.listen("slow")
    alive, listener = lab.listen("alive")
    release, reached = threading.Event(), threading.Event()

    def message(broker: Broker, entry: OutboxEntry) -> bytes:
        if broker.id == slow.id:
            reached.set()
            release.wait(WAIT)
        return encode(broker, entry)

    with lab.notifier(message) as notifier:
        lab.execute(slow, alive)
        notifier.wake([slow.id, alive.id])
        assert reached.wait(WAIT)
        listener.wait(1)
        assert slow_listener.requests == 0
        release.set()
        slow_listener.wait(1)


def test_a_flapping_broker_gets_everything_in_order_and_is_not_gone(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b", *[500, 200] * 10)
    with lab.notifier(gone_after=3.0) as notifier:
        numbers = [lab.execute(broker) for _ in range(10)]
        notifier.wake([broker.id])
        assert [number for _, number in listener.wait(10)] == numbers
        lab.wait_empty(broker)
        assert lab.gone == []


def test_a_silent_broker_is_declared_gone_and_its_outbox_emptied(lab: OutboxLab) -> None:
    broker = lab.broker("b", lab.dead_url())
    with lab.notifier(gone_after=5.0) as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.wait_empty(broker)
        assert lab.gone == ["b"]


def test_410_declares_a_broker_gone_at_once(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b", 410)
    lab.execute(broker)
    lab.execute(broker)
    with lab.notifier():
        lab.wait_empty(broker)
        assert lab.gone == ["b"]
        assert listener.requests == 1


def test_a_gone_broker_gets_no_requests_until_it_returns(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b", 410)
    other, other_listener = lab.listen("other")
    with lab.notifier() as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.wait_empty(broker)
        number = lab.execute(broker, other)
        notifier.wake([broker.id, other.id])
        other_listener.wait(1)
        assert listener.requests == 1
        lab.catalog.replace(broker)
        notifier.wake([broker.id], returned=True)
        assert listener.wait(1) == [(lab.channel.id, number)]


def test_a_returned_broker_does_not_wait_for_its_backoff(lab: OutboxLab) -> None:
    failed = threading.Event()
    broker, listener = lab.listen("b", 500)
    with lab.notifier(min_backoff=1e6, max_backoff=1e6, rng=_Announcing(failed)) as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        assert failed.wait(WAIT)
        notifier.wake([broker.id], returned=True)
        listener.wait(1)


class _Announcing(random.Random):
    """Signals when the notifier computes a backoff."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__(1)
        self.event = event

    def uniform(self, a: float, b: float) -> float:
        self.event.set()
        return super().uniform(a, b)


def test_the_next_attempt_uses_the_new_address_of_a_broker(lab: OutboxLab) -> None:
    broker = lab.broker("b", lab.dead_url())
    _, listener = lab.listen("new")
    with lab.notifier() as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.catalog.replace(Broker(broker.id, "b", listener.url))
        listener.wait(1)
        lab.wait_empty(broker)


@pytest.mark.parametrize("url", ["http://", "nonsense", "ftp://127.0.0.1/", "http://127.0.0.1:99999/", "http://[::1"])
def test_an_unusable_address_counts_as_a_failure(lab: OutboxLab, url: str) -> None:
    broker = lab.broker("b", url)
    alive, listener = lab.listen("alive")
    with lab.notifier(gone_after=2.0) as notifier:
        lab.execute(broker, alive)
        notifier.wake([broker.id, alive.id])
        lab.wait_empty(broker)
        listener.wait(1)
        assert lab.gone == ["b"]


def test_an_entry_without_a_message_is_deleted_without_a_request(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    with lab.notifier(lambda broker, entry: encode(broker, entry) if entry.execution == 2 else None) as notifier:
        lab.execute(broker)
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.wait_empty(broker)
        assert listener.notified == [(lab.channel.id, 2)]


def test_a_failure_to_build_a_message_does_not_count_against_the_broker(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    failures = [StorageError("a segment is missing"), KeyError("a mistake")] * 3

    def message(broker: Broker, entry: OutboxEntry) -> bytes:
        if failures:
            raise failures.pop()
        return encode(broker, entry)

    with lab.notifier(message, gone_after=0.0) as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        listener.wait(1)
        assert lab.gone == []


def test_a_failure_of_the_catalog_does_not_notify_twice(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    lab.watched.faults = 3
    with lab.notifier() as notifier:
        lab.execute(broker)
        notifier.wake([broker.id])
        lab.wait_empty(broker)
        assert listener.requests == 1


def test_the_status_shows_pending_entries_and_the_last_error(lab: OutboxLab) -> None:
    failed = threading.Event()
    broker, _ = lab.listen("b", 503)
    lab.execute(broker)
    lab.execute(broker)
    with lab.notifier(min_backoff=1e6, max_backoff=1e6, rng=_Announcing(failed)) as notifier:
        assert failed.wait(WAIT)
        status = notifier.status()[broker.id]
    assert (status["pending"], status["failures"]) == (2, 1)
    assert "503" in status["last_error"]


def test_waking_an_unknown_broker_does_nothing(lab: OutboxLab) -> None:
    broker, listener = lab.listen("b")
    with lab.notifier() as notifier:
        lab.execute(broker)
        notifier.wake([999_999, broker.id])
        listener.wait(1)
        assert lab.gone == []


def test_a_quiet_channel_reaches_a_lagging_broker_while_a_busy_one_goes_on(lab: OutboxLab) -> None:
    busy, quiet = lab.channel, Channel(lab.catalog.new_id(), "Quiet", "continuous", (), "SELECT 1")
    lab.catalog.add_channel(quiet, {})

    def go_on() -> int:
        for _ in range(2 * BATCH):  # faster than the broker takes them
            lab.execute(broker)
        return 200

    broker, listener = lab.listen("b", *[go_on] * 20)
    for _ in range(3 * READ):
        lab.execute(broker)
    lab.catalog.record(Execution(quiet.id, 1, 2.0, 2.0, 1, 1, 1, None), {}, [broker.id])
    with lab.notifier():
        notified = listener.wait(20 * BATCH)
    assert notified.index((quiet.id, 1)) < READ
    assert [number for id, number in notified if id == busy.id][: 3 * READ] == list(range(1, 3 * READ + 1))
