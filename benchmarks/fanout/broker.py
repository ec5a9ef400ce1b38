"""Our broker: the real process, told of push executions as a data cluster tells it."""

from __future__ import annotations

import http.client
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fanout import cases
from benchmarks.fanout.counter import Door, Opening
from benchmarks.fanout.server import ROOT, Server
from tocsin.broker.protocol import PATH
from tocsin.cluster.model import Channel
from tocsin.wire import SUBPROTOCOL
from tocsin.wire.messages import encode_notify

# The data cluster that needs no Spark is the tests'.
sys.path.insert(0, str(ROOT / "tests"))

CHANNEL = "Above"


class Tocsin(Server):
    """Subscriptions, numbers, accounting and slow-subscriber control included; no heartbeats, as the counter is mute."""

    name = "Tocsin"
    note = "Tocsin: the broker as it is; its 300 bytes name channel, subscription and execution"

    def start(self) -> None:
        from sparkless import sparkless

        self._stack = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="tocsin-fanout-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        self._cluster, url = self._stack.enter_context(sparkless(folder / "cluster"))
        self.launch(
            [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--port", "0", "--cluster", url]
            + ["--home", str(folder / "broker"), "--name", "bench"],
            {"TOCSIN_BROKER_HEARTBEAT": "0", "TOCSIN_BROKER_GRACE": "3600", "PATH": "/usr/bin:/bin"}
            | {"PYTHONPATH": str(ROOT / "src")},
        )
        assert self.process is not None and self.process.stdout is not None
        # Read to the byte: what is buffered here would be missing later.
        facts: dict[str, Any] = {}
        while facts.get("event") != "ready":
            line = b""
            while not line.endswith(b"\n"):
                line += self.process.stdout.read(1) or b"{}\n"
            facts = json.loads(line)
            if not facts:
                raise RuntimeError("the broker ended before it was ready")
        self._port = int(facts["url"].rpartition(":")[2])
        self._inside = http.client.HTTPConnection("127.0.0.1", int(facts["inside"].rpartition(":")[2]))
        self._execution = 0
        self._numbers: dict[int, int] = {}

    @property
    def door(self) -> Door:
        return Door(self._port, b'{"type":"notify', b'"id":', path=PATH, subprotocol=SUBPROTOCOL)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        messages = [b'{"type":"hello","id":0}']
        messages += [
            b'{"type":"subscribe","id":%d,"channel":"%b","args":[%d]}' % (place, CHANNEL.encode(), topic)
            for place, topic in enumerate(topics, 1)
        ]
        return Opening(messages, len(messages))

    def publish(self, topics: Sequence[int]) -> None:
        tells = []
        for topic in topics:
            self._execution += 1
            number = self._subscription(topic)
            # The message as a whole has the size of everybody's payload.
            bare = encode_notify(CHANNEL, number, self._execution, 1, b'[{"payload":""}]')
            rows = [{"payload": "x" * (len(cases.PAYLOAD) - len(bare))}]
            line = {"subscription": number, "execution": self._execution, "count": 1, "results": rows}
            tells.append(
                {"broker": "bench", "channel": CHANNEL, "execution": self._execution, "results": [line]},
            )
        body = msgspec.json.encode(tells[0] if len(tells) == 1 else tells)
        self._inside.request("POST", "/told", body, {"content-type": "application/json"})
        answer = self._inside.getresponse()
        answer.read()
        if answer.status != 204:
            raise RuntimeError(f"the broker answered {answer.status}")

    def _subscription(self, topic: int) -> int:
        if topic not in self._numbers:
            world = self._cluster.world
            table = world.tables[world.names.get(Channel, CHANNEL).id]
            self._numbers[topic] = table.find(table.canonical([topic])) or 0
        return self._numbers[topic]

    def stop(self) -> None:
        super().stop()
        if hasattr(self, "_stack"):
            self._inside.close()
            self._stack.close()
