"""Our broker: the real process, told of push executions as a data cluster tells it."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fanout import cases, processes
from benchmarks.fanout.counter import Door, Opening
from benchmarks.fanout.server import ROOT, Server
from tocsin.broker.transport.handshake import PATH
from tocsin.cluster.model import Channel
from tocsin.http.client import Address
from tocsin.wire import SUBPROTOCOL
from tocsin.wire.messages import notify_template
from tocsin.wire.notify_headers import ANSWER, LATER, UNANSWERED

# The data cluster that needs no Spark is the tests'.
sys.path.insert(0, str(ROOT / "tests"))

_ADDRESS = Address("http://bench")
#: The counter is mute, so there are no heartbeats; what nobody has any more is kept.
SETTINGS: dict[str, float] = {"heartbeat": 0, "grace": 3600}


class Tocsin(Server):
    """Subscriptions, numbers, accounting and slow-subscriber control included; no heartbeats, as the counter is mute.

    ``cluster`` is the address of a data cluster in a process of its own; without it there is one in this process.
    """

    name = "Tocsin"
    note = (
        "Tocsin: the broker as it is; its 300 bytes name channel, subscription and execution; "
        "a burst to one topic is 16 executions told in one request, one to 16 topics is what one execution found"
    )

    def __init__(
        self,
        core: int | None = processes.SERVER_CORE,
        *,
        channel: str = "Above",
        members: int = 1,
        cluster: str = "",
        **settings: float,
    ) -> None:
        super().__init__(core)
        self.channel = channel
        self.settings = SETTINGS | settings
        self._members = members
        self._url = cluster

    def start(self) -> None:
        self._stack = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="tocsin-fanout-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if not self._url:
            from sparkless import sparkless

            self.cluster, self._url = self._stack.enter_context(sparkless(folder / "cluster"))
        variables = {f"TOCSIN_BROKER_{name.upper()}": str(value) for name, value in self.settings.items()}
        command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--port", "0", "--cluster", self._url]
        command += ["--home", str(folder / "broker"), "--name", "bench", "--processes", str(self._members)]
        self.launch(command, variables | {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")})
        #: What each process said of itself when it was ready.
        self.facts: list[dict[str, Any]] = []
        while len(self.facts) < self._members:
            said = json.loads(self._line())
            if said["event"] == "ready":
                self.facts.append(said)
        self._port = int(self.facts[0]["url"].rpartition(":")[2])
        self._notifier = Notifier(int(self.facts[0]["inside"].rpartition(":")[2]))
        self._template = notify_template(self.channel)
        self.executions = 0
        self._numbers: dict[int, int] = {}

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
    def door(self) -> Door:
        return Door(self._port, b'{"type":"notify', b'"id":', path=PATH, subprotocol=SUBPROTOCOL)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        messages = [b'{"type":"hello","id":0}']
        messages += [
            b'{"type":"subscribe","id":%d,"channel":"%b","args":[%d]}' % (place, self.channel.encode(), topic)
            for place, topic in enumerate(topics, 1)
        ]
        return Opening(messages, len(messages))

    def publish(self, topics: Sequence[int]) -> None:
        tells: list[dict[str, Any]] = []
        seen: set[int] = set()
        for topic in topics:
            # An execution finds something for each subscription once: what comes at once for different ones is one.
            if not tells or topic in seen:
                self.executions += 1
                seen = set()
                tells.append({"broker": "bench", "channel": self.channel, "execution": self.executions, "results": []})
            seen.add(topic)
            number = self.subscription(topic)
            # The message as a whole has the size of everybody's payload.
            bare = self._template % (number, self.executions, 1, b'[{"payload":""}]')
            rows = [{"payload": "x" * (len(cases.PAYLOAD) - len(bare))}]
            line = {"subscription": number, "execution": self.executions, "count": 1, "results": rows}
            tells[-1]["results"].append(line)
        body = msgspec.json.encode(tells[0] if len(tells) == 1 else tells)
        self._notifier.notify(body)

    def subscription(self, topic: int) -> int:
        """Its number in the data cluster."""
        if topic not in self._numbers:
            context = self.cluster.context
            table = context.tables[context.definitions.get(Channel, self.channel).id]
            self._numbers[topic] = table.find(table.canonical([topic])) or 0
        return self._numbers[topic]

    def stop(self) -> None:
        if self.process is not None and self._members > 1:
            # The one that started the others ends them; killed, it would leave them behind.
            self.process.terminate()
            self.process.wait(60)
        super().stop()
        if hasattr(self, "_stack"):
            self._notifier.close()
            self._stack.close()


class Notifier:
    """Tells a broker as the data cluster does: on one connection, not waiting for answers until too many are due."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._due, self._read = 0, b""
        self._window = 1

    def notify(self, body: bytes) -> None:
        # What was answered to earlier ones must not pile up.
        while self._due and self._take(socket.MSG_DONTWAIT if self._due < self._window else 0):
            pass
        later = b"%b: %b\r\n" % (ANSWER, LATER) if self._window > 1 else b""
        # In one piece, as the data cluster sends it.
        self._socket.sendall(_ADDRESS.post("/notify", body, later))
        self._due += 1
        while self._window == 1 and self._due:
            self._take(0)

    def _take(self, flags: int) -> bool:
        """Whether something came."""
        try:
            data = self._socket.recv(65_536, flags)
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
        self._socket.close()
