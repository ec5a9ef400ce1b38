"""What tests of the broker share: a real broker process, and a WebSocket client that speaks the protocol by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.typing import Subprotocol

from served import environment
from tocsin.wire import SUBPROTOCOL


class Broker:
    """A running ``tocsin broker``."""

    def __init__(self, home: Path, cluster: str, name: str = "b", *options: str, **settings: Any) -> None:
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--name", name, "--cluster", cluster]
        command += ["--home", str(home), *options]
        if "--port" not in options:
            command += ["--port", "0"]
        variables = {f"TOCSIN_BROKER_{key.upper()}": json.dumps(value) for key, value in settings.items()}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(**variables)
        )
        self.facts: dict[str, Any] = {}

    def event(self, name: str) -> dict[str, Any]:
        """Waits until it says this."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["event"] == name:
                self.facts = said
                return said
        assert self.process.stderr is not None
        raise AssertionError(f"it ended before {name}: {self.process.stderr.read().decode()}")

    @property
    def url(self) -> str:
        return str(self.facts["url"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def end(self) -> None:
        """Stops it as an operator does; it must not complain."""
        self.process.terminate()
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        assert self.process.wait(60) == 0, errors
        self._close()

    def _close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def broker(home: Path, cluster: str, name: str = "b", *options: str, **settings: Any) -> Iterator[Broker]:
    running = Broker(home, cluster, name, *options, **settings)
    try:
        running.event("ready")
        yield running
    finally:
        if running.process.poll() is None:
            running.end()


class Speaker:
    """A subscriber that says what the test makes it say."""

    def __init__(self, url: str, hello: bool = True, **hello_fields: Any) -> None:
        self._held = ExitStack()
        address = url.replace("http", "ws", 1) + "/v1/ws"
        self.socket = self._held.enter_context(
            connect(address, subprotocols=[Subprotocol(SUBPROTOCOL)], proxy=None, max_size=None)
        )
        self._waiting: list[dict[str, Any]] = []
        self._frames: list[dict[str, Any]] = []
        self._id = 0
        if hello:
            self.welcome = self.ask("hello", **hello_fields)

    def send(self, *messages: dict[str, Any]) -> None:
        self.socket.send(json.dumps(messages[0] if len(messages) == 1 else list(messages)))

    def ask(self, type: str, **fields: Any) -> dict[str, Any]:
        """Sends a request and gives its answer; what else comes meanwhile waits for ``next``."""
        self._id += 1
        self.send({"type": type, "id": self._id, **fields})
        for message in self._all():
            if message.get("id") == self._id:
                return message
            self._waiting.append(message)
        raise AssertionError

    def _all(self, timeout: float = 30.0) -> Iterator[dict[str, Any]]:
        while True:
            if not self._frames:
                found = json.loads(self.socket.recv(timeout))
                self._frames += found if isinstance(found, list) else [found]
            yield self._frames.pop(0)

    def next(self, type: str | None = None, timeout: float = 30.0) -> dict[str, Any]:
        """The next message of this type; others wait for their turn."""
        for place, message in enumerate(self._waiting):
            if type in (None, message["type"]):
                return self._waiting.pop(place)
        for message in self._all(timeout):
            if type in (None, message["type"]):
                return message
            self._waiting.append(message)
        raise AssertionError

    def close(self) -> None:
        self._held.close()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
