"""A handler that fails leaves no instruction to the next call, and the state machine serves other subscribers."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from broker_harness import BrokerHarness, at, executions, line
from msgspec import Raw

from tocsin.balancing.host.messages import Decline
from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.config import BrokerBalancing
from tocsin.identity.grants import GrantTable
from tocsin.wire import messages as wire
from tocsin.wire.reports import MigrationOrder, PeerAddress, ReportReply

ORDER = MigrationOrder("b:1", "c", "http://c", "ticket")


class PlantedError(Exception):
    pass


@pytest.fixture
def harness() -> BrokerHarness:
    """``p`` lags in flood, which is being fetched; ``q`` is live in fire; ann is a user over REST; F has a post."""
    harness = BrokerHarness(grace=5.0, hello_timeout=50.0, balancing=BrokerBalancing("peers"))
    harness.open("p", "q")
    harness.subscribed("p", 7, position=9, kind="flood")
    harness.subscribed("q", 8, position=9, kind="fire")
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call", 9, position=9, kind="storm")
    harness.close("call")
    harness.open("r")
    harness.subscribe("r", "flood", after=2)
    harness.say("r", wire.Publish(2, "F", [Raw(b"1")]))
    harness.say("p", wire.Subscribe(5, "Other", []))
    harness.handle(ev.Opened("new"))
    harness.say("new", wire.Hello(1, "token"))
    harness.handle(ev.Opened("newer"))
    harness.sent.clear()
    harness.done.clear()
    return harness


EVENTS: list[Any] = [
    ev.Opened("s"),
    ev.OpenedForUser("call", "ann"),
    ev.Closed("p"),
    ev.Received("p", [wire.Ping()]),
    ev.Unreadable("p", "this is not JSON", 3),
    ev.Congested("p"),
    ev.Drained("p"),
    ev.Authenticated("new", "bob", []),
    ev.Restored("bob", [wire.DurableSubscription(4, "C", ["hail"], 3)]),
    ev.UserEnded("ann"),
    ev.UserRevoked("ann", 5.0),
    ev.UsersRestored(),
    ev.Stored([ev.Remembered("ann", 7)]),
    ev.UsersAway(True),
    ev.UserElsewhere("ann"),
    ev.Notified("D", 10, [line(7, 10)]),
    ev.Pulled("C", at(10), [line(7, 10)]),
    ev.Missed({"D": at(12)}),
    ev.Publications("F", [Raw(b"{}")]),
    ev.Subscribed("Other", [Problem("not_found", "no")]),
    ev.Unsubscribed("Other"),
    ev.Recovered("D", [(5, ["hail"])], at(9)),
    ev.Dropped("Other"),
    ev.Fetched(1, [line(7, 5)]),
    ev.FetchGap(1, at(6)),
    ev.FetchEarly(1),
    ev.Published("F"),
    ev.PublishFailed("F", Problem("not_found", "no")),
    ev.GrantsChanged(GrantTable((), ("C", "Other"))),
    ev.Ordered(ReportReply(1, migrations=[ORDER])),
    ev.PeersKnown({"c": PeerAddress("http://c", "http://c-inside")}),
    ev.PeerMessage("c", Decline("unknown", "no")),
    ev.PeerAnswered("c"),
    ev.PeerUnreachable("c"),
    ev.DrainSelf(),
    ev.UseStrategy(BrokerBalancing("peers", "byers")),
    ev.Tick(),
    ev.Stopping(),
]
REQUESTS: list[Any] = [
    wire.Hello(1),
    wire.Authenticate("token"),
    wire.Subscribe(3, "C", ["flood"], 4),
    wire.Unsubscribe(3, 7),
    wire.Publish(3, "G", [Raw(b"1")]),
    wire.Ack({7: 9}),
    wire.MigrationFailed("ticket"),
    wire.Ping(),
    wire.Pong(),
]


def fail_once(handlers: dict[type[Any], Any], kind: type[Any]) -> None:
    """Makes the handler fail the next time, after all its work."""
    handler = handlers[kind]

    def failing(*arguments: Any) -> None:
        handlers[kind] = handler
        handler(*arguments)
        raise PlantedError

    handlers[kind] = failing


def nothing_leaks(harness: BrokerHarness) -> None:
    """Only fetches of the failed call are still in the queue."""
    assert all(isinstance(it, do.Fetch) for it in harness.handle(ev.Received("q", [wire.Pong()])))


def other_subscribers_are_served(harness: BrokerHarness, execution: int) -> None:
    """``q`` and a new subscriber receive the next execution; nothing else goes out."""
    harness.open("other")
    harness.subscribe("other", "fire", id=4)
    (subscribed,) = harness.took("other")
    assert (subscribed.id, subscribed.subscription) == (4, 8)
    (send,) = harness.state.on_notify([ev.Notified("C", execution, [line(8, execution)])], harness.now)
    assert isinstance(send, do.Send) and send.peers == ("q", "other") and len(send.messages) == 1
    assert executions(wire.decode_answers(send.messages[0])) == [execution]


def test_every_event_and_every_request_is_planted_with_a_failure():
    assert {type(event) for event in EVENTS} == set(ev.Event.__subclasses__())
    assert {type(request) for request in REQUESTS} == set(get_args(wire.FromClient))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_whose_handler_fails_leaves_nothing_to_the_next_call(harness, event):
    fail_once(harness.state._handlers, type(event))
    if isinstance(event, ev.Notified | ev.Pulled):
        failed, *fetches = harness.handle(event)
        assert isinstance(failed, do.Failed) and isinstance(failed.error, PlantedError)
        assert all(isinstance(it, do.Fetch) for it in fetches)
        for fetch in fetches:
            harness.handle(ev.Fetched(fetch.job, []))
    else:
        with pytest.raises(PlantedError):
            harness.handle(event)
    nothing_leaks(harness)
    if isinstance(event, ev.Stopping):
        harness.open("q")
        harness.subscribe("q")
        harness.sent.clear()
    other_subscribers_are_served(harness, 11)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_whose_handler_fails_leaves_nothing_to_the_next_call(harness, request_):
    fail_once(harness.state.sessions.requests, type(request_))
    with pytest.raises(PlantedError):
        harness.say("newer" if isinstance(request_, wire.Hello) else "p", request_)
    nothing_leaks(harness)
    other_subscribers_are_served(harness, 11)


@pytest.mark.parametrize("early", [False, True], ids=["after its work", "before its work"])
def test_subscribers_receive_a_notification_whose_handler_failed(harness, early):
    """Those before and after it are delivered, and its own subscribers get it from the data cluster."""
    deliver = harness.state.delivery._deliver

    def failing(lines: list[ev.Line], out: Any) -> None:
        if lines[0].execution != 11 or not early:
            deliver(lines, out)
        if lines[0].execution == 11:
            raise PlantedError

    harness.state.delivery._deliver = failing
    notifications = [ev.Notified("C", number, [line(8, number)]) for number in (10, 11)]
    first, failed, pull, *fetches = harness.state.on_notify([*notifications, ev.Notified("E", 1)], 0.0)
    assert isinstance(first, do.Send) and isinstance(failed, do.Failed)
    assert pull == do.Pull("E", at(1))
    (fetch,) = [it for it in fetches if it.subscription == 8]
    assert fetch.position == at(10)
    harness.handle(ev.Fetched(fetch.job, [line(8, 11)]))
    assert executions(harness.took("q")) == [11]
    harness.handle(ev.Notified("C", 12, [line(8, 12)]))
    assert executions(harness.took("q")) == [12]


def test_a_pull_that_fails_does_not_stop_its_channel(harness):
    harness.handle(ev.Notified("C", 10))
    fail_once(harness.state._handlers, ev.Pulled)
    harness.handle(ev.Pulled("C", at(10), [line(8, 10)]))
    (fetch,) = [it for it in harness.did(do.Fetch) if it.subscription == 8]
    harness.handle(ev.Fetched(fetch.job, [line(8, 10)]))
    harness.executed(11, 8)
    assert executions(harness.took("q")) == [10, 11]
