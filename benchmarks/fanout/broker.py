"""Our broker: the real process, notified of push executions as by a data cluster."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fanout import cases, processes
from benchmarks.fanout.counter import Endpoint, Opening
from benchmarks.fanout.server import ROOT, Server
from tocsin.broker.transport.handshake import PATH
from tocsin.cluster.model import Channel
from tocsin.http.client import Address
from tocsin.identity.part_keys import RENEWED
from tocsin.wire import SUBPROTOCOL
from tocsin.wire.join import PART
from tocsin.wire.messages import notify_template
from tocsin.wire.notify_headers import ANSWER, LATER, UNANSWERED

# The data cluster that needs no Spark is the tests'.
sys.path.insert(0, str(ROOT / "tests"))

_ADDRESS = Address("http://localhost")
#: The counter is mute, so there are no heartbeats; unused subscriptions are kept.
SETTINGS: dict[str, Any] = {"heartbeat": 0, "grace": 3600}


class Notifier:
    """Notifies a broker as the data cluster does: on one connection, waiting for answers only if too many are due."""

    def __init__(self, port: int, token: Callable[[], str]) -> None:
        self._port, self._token, self._signed_at = port, token, float("-inf")
        self._made: socket.socket | None = None
        self._due, self._read = 0, b""
        self._window = 1

    def notify(self, body: bytes) -> None:
        # Answers to earlier notifications must not pile up.
        while self._due and self._take(wait=self._due >= self._window):
            pass
        later = b"%b: %b\r\n" % (ANSWER, LATER) if self._window > 1 else b""
        # In one piece, as the data cluster sends it.
        self._socket.sendall(_ADDRESS.post("/notify", body, self._signature() + later))
        self._due += 1
        while self._window == 1 and self._due:
            self._take(wait=True)

    def _signature(self) -> bytes:
        """The first request on a connection proves who sends, and one from time to time."""
        now = time.monotonic()
        if now - self._signed_at < RENEWED:
            return b""
        self._signed_at = now
        return f"{PART}: {self._token()}\r\n".encode()

    @property
    def _socket(self) -> socket.socket:
        """Connected when it is needed: a broker closes a connection that brings nothing."""
        if self._made is None:
            self._made = self.connect(self._port)
        return self._made

    def connect(self, port: int) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def receive(self, wait: bool) -> bytes:
        return self._socket.recv(65_536, 0 if wait else socket.MSG_DONTWAIT)

    def _take(self, *, wait: bool) -> bool:
        """Reads answers; whether any bytes arrived."""
        try:
            data = self.receive(wait)
        except BlockingIOError:
            return False
        *answers, self._read = (self._read + data).split(b"\r\n\r\n")
        for answer in answers:
            status, _, fields = answer.partition(b"\r\n")
            if not status.startswith(b"HTTP/1.1 204"):
                raise RuntimeError(f"the broker answered {answer[:500]!r}")
            if fields:
                self._window = int(fields.partition(UNANSWERED + b": ")[2])
            self._due -= 1
        if not data:
            raise RuntimeError("the broker ended the connection")
        return True

    def close(self) -> None:
        if self._made is not None:
            self._made.close()


class Tocsin(Server):
    """Subscriptions, ids, accounting and slow-subscriber control included; no heartbeats, as the counter is mute.

    ``cluster`` is the address of a data cluster in a process of its own; without it there is one in this process, with
    the settings ``data``.
    """

    name = "Tocsin"
    note = (
        "Tocsin: the broker as it is; its 300 bytes name channel, subscription and execution; "
        "a burst to one topic is 16 executions notified in one request, one to 16 topics is the result of one execution"
    )
    notifier = Notifier
    #: The code of the broker; the data cluster is this tree's.
    source = ROOT / "src"

    def __init__(
        self,
        core: int | None = processes.SERVER_CORE,
        *,
        channel: str = "Above",
        members: int = 1,
        cluster: str = "",
        data: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(core)
        self._data = data or {}
        self.channel = channel
        self.settings = SETTINGS | settings
        self._members = members
        self.cluster: Any = None
        self._url = cluster

    def start(self) -> None:
        self._stack = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="tocsin-fanout-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if not self._url:
            from sparkless import sparkless

            self.cluster, self._url = self._stack.enter_context(sparkless(folder / "cluster", **self._data))
        self.run_broker(folder, "bench", "--cluster", self._url)
        cluster, name = self.cluster, self.facts[0]["name"]
        inner = int(self.facts[0]["inside"].rpartition(":")[2])
        self._notifier = self.notifier(inner, lambda: cluster.token_for(name) if cluster is not None else "")
        self._stack.callback(self._notifier.close)
        self._template = notify_template(self.channel)
        self.executions = 0
        self._numbers: dict[int, int] = {}

    def run_broker(self, folder: Path, name: str, *options: str) -> None:
        """Returns when it is ready."""
        texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in self.settings.items()}
        variables = {f"TOCSIN_BROKER_{key.upper()}": text for key, text in texts.items()}
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--port", "0", *options]
        command += ["--home", str(folder / name), "--name", name, "--processes", str(self._members)]
        self.launch(command, variables | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.source)})
        #: What each process printed when it was ready.
        self.facts: list[dict[str, Any]] = []
        while len(self.facts) < self._members:
            said = json.loads(self._line())
            if said["event"] == "ready":
                self.facts.append(said)
        self._port = int(self.facts[0]["url"].rpartition(":")[2])

    def _line(self) -> bytes:
        """Read to the byte: what is buffered here would be missing later."""
        assert self.process is not None and self.process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            byte = self.process.stdout.read(1)
            if not byte:
                raise RuntimeError("the broker ended before it was ready")
            line += byte
        return line

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self._port, b'{"type":"notify', b'"id":', path=PATH, subprotocol=SUBPROTOCOL)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        messages = [b'{"type":"hello","id":0}']
        messages += [
            b'{"type":"subscribe","id":%d,"channel":"%b","args":[%d]}' % (place, self.channel.encode(), topic)
            for place, topic in enumerate(topics, 1)
        ]
        return Opening(messages, len(messages))

    def publish(self, topics: Sequence[int]) -> None:
        notifications: list[dict[str, Any]] = []
        seen: set[int] = set()
        for topic in topics:
            # An execution has one result for each subscription: results of different ones at once are one execution.
            if not notifications or topic in seen:
                self.executions += 1
                seen = set()
                found = {"broker": "bench", "channel": self.channel, "execution": self.executions, "results": []}
                notifications.append(found)
            seen.add(topic)
            number = self.subscription(topic)
            # The whole message has the size of the other servers' payload.
            bare = self._template % (number, self.executions, 1, b'[{"payload":""}]')
            rows = [{"payload": "x" * (len(cases.PAYLOAD) - len(bare))}]
            line = {"subscription": number, "execution": self.executions, "count": 1, "results": rows}
            notifications[-1]["results"].append(line)
        body = msgspec.json.encode(notifications[0] if len(notifications) == 1 else notifications)
        self._notifier.notify(body)

    def subscription(self, topic: int) -> int:
        """Its id in the data cluster."""
        if topic not in self._numbers:
            context = self.cluster.context
            table = context.tables[context.definitions.get(Channel, self.channel).id]
            self._numbers[topic] = table.find(table.canonical([topic])) or 0
        return self._numbers[topic]

    def stop(self) -> None:
        if self.process is not None and self._members > 1:
            # The parent ends the other processes; if it were killed, they would keep running.
            self.process.terminate()
            self.process.wait(60)
        super().stop()
        if hasattr(self, "_stack"):
            self._stack.close()
