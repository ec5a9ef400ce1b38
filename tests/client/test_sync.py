"""The client without ``async``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from scripted_broker import ScriptedBroker

from tocsin.client import Unreachable
from tocsin.client.sync import connect
from tocsin.errors import Conflict
from tocsin.wire import messages as wire
from tocsin.wire.position import Position


class BrokerThread:
    """A broker in its own event loop, since a test without ``async`` has none."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.broker = ScriptedBroker()
        self.do(self.broker.__aenter__())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def end(self) -> None:
        self.do(self.broker.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    found = BrokerThread()
    yield found
    found.end()


def test_a_loop_over_a_subscription_gives_its_notifications(broker):
    with connect(broker.broker.url) as client, client.subscribe("C", kind="fire") as found:
        broker.do(broker.broker.notify(11, 12))
        assert [next(found).execution, found.get(timeout=120).execution] == [11, 12]
        assert (found.channel, found.id, found.lag, found.gaps, found.pending) == ("C", 5, 0, 0, 0)
        with pytest.raises(TimeoutError):
            found.get(timeout=0)


def test_a_drained_subscription_ends(broker):
    with connect(broker.broker.url) as client:
        found = client.subscribe("C")
        found.confirmed()
        broker.do(broker.broker.notify(11))
        found.drain()
        assert [notification.execution for notification in found] == [11]


def test_gaps_are_events(broker):
    with connect(broker.broker.url) as client, client.subscribe("C") as found:
        broker.do(broker.broker.send(wire.Gap(5, 10, 15, "retention")))
        assert found.event().next == Position(0, 15)


def test_records_are_published(broker):
    with connect(broker.broker.url) as client:
        assert client.publish("F", [{"a": 1}, {"a": 2}]).accepted == 2
        assert client.status.state == "connected" and client.durable_subscriptions == []


def test_a_closed_client_refuses_publications(broker):
    with connect(broker.broker.url) as client:
        client.close()
        with pytest.raises(Conflict):
            client.publish("F", {})
    with pytest.raises(Conflict):
        client.publish("F", {})


def test_a_server_that_is_not_there_is_unreachable_and_leaves_no_thread():
    before = threading.active_count()
    with pytest.raises(Unreachable), connect("ws://127.0.0.1:1"):
        raise AssertionError
    assert threading.active_count() == before
