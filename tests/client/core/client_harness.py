"""Drives a client's state machine by hand, and records its instructions."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from tocsin.client.core import events as ev
from tocsin.client.core.state import ClientState
from tocsin.client.notification import Gap, Notification
from tocsin.wire import messages as wire
from tocsin.wire.position import Position

HEARTBEAT = 10.0


class Line:
    """One connection: ``open`` from the attempt to the end, ``online`` while messages can be sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.open = True
        self.online = False
        self.reading = True
        self.frames: list[list[wire.Message]] = []

    @property
    def sent(self) -> list[wire.Message]:
        return [message for frame in self.frames for message in frame]


class ClientHarness:
    """A test advances ``now``. ``sent`` has the messages of the last connection, ``lines`` has all connections.

    All methods use the last connection, unless a test names another one.
    """

    def __init__(self, *urls: str, **options: Any) -> None:
        known = urls if options.get("coordinator") else urls or ("one",)
        self.state = ClientState(known, Random(7), **options)
        self.now = 100.0
        self.connection = 0
        self.tried: list[str] = []
        self.lines: dict[int, Line] = {0: Line("")}
        self.items: dict[int, list[Notification | Gap]] = defaultdict(list)
        self.done: list[ev.Instruction] = []
        self.timer: float | None = None
        self.limits: list[int] = []  # of the frames that were sent

    def do(self, event: ev.Event) -> list[ev.Instruction]:
        found = self.state.handle(event, self.now)
        for each in found:
            match each:
                case ev.Connect(connection, url):
                    self.connection = connection
                    self.lines[connection] = Line(url)
                    self.tried.append(url)
                case ev.Send(connection, messages, limit):
                    self.limits.append(limit)
                    assert self.lines[connection].online, "a message is sent without a connection"
                    self.lines[connection].frames.append(messages)
                case ev.Deliver(handle, item):
                    self.items[handle].append(item)
                case ev.SetTimer(at):
                    self.timer = at
                case ev.Read(connection, on):
                    self.lines[connection].reading = on
                case ev.Close(connection):
                    self.lines[connection].online = self.lines[connection].open = False
        self.done += found
        return found

    # -- steps of a conversation -------------------------------------------------------------------------------------

    def connect(self, connection: int | None = None) -> list[ev.Instruction]:
        connection = self.connection if connection is None else connection
        self.lines[connection].online = True
        return self.do(ev.Connected(connection))

    def receive(self, *messages: wire.FromBroker, on: int | None = None) -> list[ev.Instruction]:
        return self.do(ev.Received(self.connection if on is None else on, list(messages)))

    def welcome(self, **more: Any) -> list[ev.Instruction]:
        (hello,) = self.sent_of(wire.Hello)
        return self.receive(wire.Welcome(**{"id": hello.id, "broker": "b", "heartbeat": HEARTBEAT} | LIMIT | more))

    def open(self) -> ClientHarness:
        self.do(ev.OpenRequested())
        self.connect()
        self.welcome()
        return self

    def cut(self, code: int | None = None, reason: str = "", on: int | None = None) -> list[ev.Instruction]:
        connection = self.connection if on is None else on
        self.lines[connection].online = self.lines[connection].open = False
        return self.do(ev.Disconnected(connection, code, reason))

    def tick(self) -> list[ev.Instruction]:
        """Advances to the timer's time and fires it."""
        assert self.timer is not None
        self.now, self.timer = max(self.now, self.timer), None
        return self.do(ev.Timer())

    def reconnect(self) -> ClientHarness:
        """After a cut: waits, connects and receives the welcome."""
        while self.state.stage.value != "connecting":
            self.tick()
        self.connect()
        self.welcome()
        return self

    def subscribe(self, handle: int = 1, channel: str = "C", args: Any = (), **more: Any) -> wire.Subscribe | None:
        """Returns the request to the broker, if there is one."""
        before = len(self.sent_of(wire.Subscribe))
        if isinstance(more.get("after"), int):
            more["after"] = Position(0, more["after"])
        self.do(ev.SubscribeRequested(handle, channel, list(args) if isinstance(args, tuple) else args, **more))
        requests = self.sent_of(wire.Subscribe)
        return requests[-1] if len(requests) > before else None

    def subscribed(self, id: int = 5, after: int = 10, handle: int = 1, epoch: int = 0, **more: Any) -> None:
        """Subscribes and receives the confirmation."""
        request = self.subscribe(handle, **more)
        assert request is not None
        self.receive(wire.Subscribed(request.id, id, request.channel, after, epoch))

    # -- recorded instructions ---------------------------------------------------------------------------------------

    @property
    def line(self) -> Line:
        return self.lines[self.connection]

    @property
    def frames(self) -> list[list[wire.Message]]:
        return self.line.frames

    @property
    def sent(self) -> list[wire.Message]:
        return self.line.sent

    @property
    def reading(self) -> bool:
        return self.line.reading

    def sent_of(self, kind: type[Any], on: int | None = None) -> list[Any]:
        line = self.line if on is None else self.lines[on]
        return [message for message in line.sent if isinstance(message, kind)]

    def did(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.done if isinstance(each, kind)]

    def got(self, handle: int = 1) -> list[int]:
        return [item.execution for item in self.items[handle] if isinstance(item, Notification)]


LIMIT = {"frame_bytes": 1 << 20}


def notify(execution: int, id: int = 5, channel: str = "C") -> wire.Notify:
    return wire.Notify(channel, id, execution, 1, [{"execution": execution}])


def consumed(handle: int, execution: int) -> ev.Consumed:
    return ev.Consumed(handle, Position(0, execution))
