"""For tests of the broker: a WebSocket client that sends raw protocol messages, and real brokers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from brokers import Broker, broker
from tocsin.wire import SUBPROTOCOL

__all__ = ["Broker", "Speaker", "alive", "broker"]


class Speaker:
    """A subscriber that sends the messages of the test."""

    def __init__(
        self, url: str, hello: bool = True, headers: dict[str, str] | None = None, **hello_fields: Any
    ) -> None:
        self._held = ExitStack()
        address = url.replace("http", "ws", 1) + "/v1/ws"
        options: Any = {"proxy": None, "max_size": None, "open_timeout": 120, "ping_interval": None}
        options["additional_headers"] = headers
        self.socket = self._held.enter_context(connect(address, subprotocols=[Subprotocol(SUBPROTOCOL)], **options))
        self.waiting: list[dict[str, Any]] = []
        self._frames: list[dict[str, Any]] = []
        self._id = 0
        if hello:
            self.welcome = self.ask("hello", **hello_fields)

    def send(self, *messages: dict[str, Any]) -> None:
        self.socket.send(json.dumps(messages[0] if len(messages) == 1 else list(messages)))

    def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns its answer; other messages wait for ``next``."""
        self._id += 1
        self.send({"type": type, "id": self._id, **fields})
        for message in self._all():
            if message.get("id") == self._id:
                return message
            self.waiting.append(message)
        raise AssertionError

    def _all(self, timeout: float = 120.0) -> Iterator[dict[str, Any]]:
        while True:
            if not self._frames:
                found = json.loads(self.socket.recv(timeout))
                self._frames += found if isinstance(found, list) else [found]
            yield self._frames.pop(0)

    def next(self, type: str | None = None, timeout: float = 120.0) -> dict[str, Any]:
        """The next message of this type; others wait for their turn."""
        for place, message in enumerate(self.waiting):
            if type in (None, message["type"]):
                return self.waiting.pop(place)
        for message in self._all(timeout):
            if type in (None, message["type"]):
                return message
            self.waiting.append(message)
        raise AssertionError

    def close(self) -> None:
        self._held.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
