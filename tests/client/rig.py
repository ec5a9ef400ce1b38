"""Drives a client's state machine by hand, and keeps what it was told to do."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from tocsin.client import events as ev
from tocsin.client.notification import Missed, Notification
from tocsin.client.state import ClientState
from tocsin.wire import messages as wire

HEARTBEAT = 10.0


class Rig:
    """``now`` moves only when a test moves it. ``sent`` is what went over the present connection."""

    def __init__(self, *urls: str, **options: Any) -> None:
        self.state = ClientState(urls or ("one",), Random(7), **options)
        self.now = 100.0
        self.connection = 0
        self.online = False
        self.tried: list[str] = []
        self.sent: list[wire.Message] = []
        self.frames: list[list[wire.Message]] = []
        self.items: dict[int, list[Notification | Missed]] = defaultdict(list)
        self.done: list[ev.Instruction] = []
        self.timer: float | None = None
        self.reading = True

    def do(self, event: ev.Event) -> list[ev.Instruction]:
        found = self.state.handle(event, self.now)
        for each in found:
            match each:
                case ev.Connect(connection, url):
                    self.connection, self.online = connection, False
                    self.tried.append(url)
                    self.sent, self.frames = [], []
                case ev.Send(connection, messages):
                    assert connection == self.connection and self.online, "nothing is said without a connection"
                    self.sent += messages
                    self.frames.append(messages)
                case ev.Deliver(handle, item):
                    self.items[handle].append(item)
                case ev.SetTimer(at):
                    self.timer = at
                case ev.Pause():
                    self.reading = False
                case ev.Resume():
                    self.reading = True
                case ev.Close():
                    self.online = False
        self.done += found
        return found

    # -- steps of a conversation -------------------------------------------------------------------------------------

    def connect(self) -> list[ev.Instruction]:
        self.online = True
        return self.do(ev.Connected(self.connection))

    def hear(self, *messages: wire.FromBroker) -> list[ev.Instruction]:
        return self.do(ev.Received(self.connection, list(messages)))

    def welcome(self, **more: Any) -> list[ev.Instruction]:
        (hello,) = self.said(wire.Hello)
        return self.hear(wire.Welcome(**{"id": hello.id, "broker": "b", "heartbeat": HEARTBEAT} | LIMIT | more))

    def open(self) -> Rig:
        self.do(ev.Open())
        self.connect()
        self.welcome()
        return self

    def cut(self, code: int | None = None, reason: str = "") -> list[ev.Instruction]:
        self.online = False
        return self.do(ev.Disconnected(self.connection, code, reason))

    def tick(self) -> list[ev.Instruction]:
        """Lets the time of the timer come."""
        assert self.timer is not None
        self.now, self.timer = max(self.now, self.timer), None
        return self.do(ev.Timer())

    def come_back(self) -> Rig:
        """After a cut: waits, connects and is welcomed."""
        while self.state.stage.value != "connecting":
            self.tick()
        self.connect()
        self.welcome()
        return self

    def subscribe(self, handle: int = 1, channel: str = "C", args: Any = (), **more: Any) -> wire.Subscribe | None:
        """The request it makes, if any."""
        before = len(self.said(wire.Subscribe))
        self.do(ev.WantSubscribe(handle, channel, list(args) if isinstance(args, tuple) else args, **more))
        asked = self.said(wire.Subscribe)
        return asked[-1] if len(asked) > before else None

    def subscribed(self, number: int = 5, after: int = 10, handle: int = 1, **more: Any) -> None:
        """Subscribes and is answered."""
        request = self.subscribe(handle, **more)
        assert request is not None
        self.hear(wire.Subscribed(request.id, number, request.channel, after))

    # -- what it did -------------------------------------------------------------------------------------------------

    def said(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]

    def did(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.done if isinstance(each, kind)]

    def got(self, handle: int = 1) -> list[int]:
        return [item.execution for item in self.items[handle] if isinstance(item, Notification)]


LIMIT = {"frame_bytes": 1 << 20}


def notify(execution: int, number: int = 5, channel: str = "C") -> wire.Notify:
    return wire.Notify(channel, number, execution, 1, [{"execution": execution}])
