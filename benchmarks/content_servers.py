"""Servers that deliver by content, and their peers that deliver by topic: the same records to the same subscribers.

Topic 0 is the kind "fire"; topic ``n`` is a kind of its own. Topics of the peers select what the kinds select.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import load, ours
from benchmarks import peers as machine
from benchmarks.fanout import processes, servers, wire
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.counter import Endpoint, Opening
from benchmarks.fanout.debian import Binary
from benchmarks.fanout.golang import nats_server, syncs_always
from benchmarks.holder import handshake, masked

FEED = "Alarms"
SIZE = 300
#: Above every bound in the conditions.
SEVERITY = 1_000
LEAST = 3
#: Occurs once in a delivery.
MARKER = b'"kind":"fire'


def kind(topic: int) -> str:
    return f"fire{topic}" if topic else "fire"


def condition(topic: int, least: int = LEAST) -> str:
    return f"kind = '{kind(topic)}' AND severity >= {least}"


@cache
def record(topic: int, name: str = "") -> bytes:
    """Its JSON, the payload of the peers too."""
    bare = json.dumps({"kind": name or kind(topic), "severity": SEVERITY, "text": ""}, separators=(",", ":"))
    return f'{bare[:-2]}{"x" * (SIZE - len(bare))}"}}'.encode()


class Publisher:
    """A connection that publishes and does not wait for the answers; it is made again if the server has ended it."""

    def __init__(self, connect: Callable[[], socket.socket], refusals: Sequence[bytes]) -> None:
        self._connect, self._refusals = connect, refusals
        self._made: socket.socket | None = None

    def send(self, data: bytes) -> None:
        self._take()
        if self._made is None:
            self._made = self._connect()
            self._made.settimeout(None)  # with a timeout, Python waits whatever the flags say
        self._made.sendall(data)

    def _take(self) -> None:
        """Answers must not pile up, and must not refuse."""
        try:
            while self._made is not None:
                answers = self._made.recv(1 << 20, socket.MSG_DONTWAIT)
                if any(each in answers for each in self._refusals):
                    raise RuntimeError(f"refused: {answers[:1000]!r}")
                if not answers:
                    self.close()
        except BlockingIOError:
            return

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None


class FeedBroker(Tocsin):
    """A broker whose subscribers have conditions on a feed, and to which records are published over a WebSocket."""

    def condition(self, number: int, topic: int) -> str:
        """Of the connection with this number."""
        return condition(topic)

    @property
    def endpoint(self) -> Endpoint:
        return replace(super().endpoint, marker=MARKER)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        messages = [b'{"type":"hello","id":0}']
        for place, topic in enumerate(topics, 1):
            given = {
                "type": "subscribe",
                "id": place,
                "channel": f"feed:{FEED}",
                "args": [self.condition(number, topic)],
            }
            messages.append(json.dumps(given).encode())
        return Opening(messages, len(messages))

    def entrance(self) -> Publisher:
        """To publish at the broker that was started last."""
        at = self.endpoint
        self._sent = 0

        def connect() -> socket.socket:
            made = handshake(at)
            made.sendall(masked(b'{"type":"hello","id":0}'))
            return made

        return Publisher(connect, [b'"type":"error"', b'"code":'])

    def enter(self, publisher: Publisher, records: Sequence[bytes]) -> None:
        self._sent += 1
        publisher.send(
            masked(
                b'{"type":"publish","id":%d,"feed":"%b","records":[%b]}'
                % (self._sent, FEED.encode(), b",".join(records))
            )
        )


class Live(FeedBroker):
    """A live feed: no data cluster. With ``links``, brokers in a chain; publisher and subscribers are at its ends."""

    name = "Tocsin, live feed, one broker"
    note = "Tocsin: the brokers as they are; a burst is one request with 16 records"
    links = 0

    def __init__(self, core: int | None = processes.SERVER_CORE) -> None:
        feeds = {FEED: "[kind,isPresent,''],[severity,isPresent,0],[text,isPresent,'']"}
        # Pinned roles: clients stay where they are. They all connect at once, and some wait for their turn.
        super().__init__(core, live_feeds=feeds, role="both", hello_timeout=600, http_head_seconds=600)
        self._brokers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._stack = ExitStack()
        folder = Path(tempfile.mkdtemp(prefix="tocsin-content-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for number in range(self.links + 1):
            before = ["--neighbours", self.facts[0]["inside"]] if number else []
            self.run_broker(folder, f"b{number}", "--cluster", "", *before)
            assert self.process is not None
            self._stack.callback(processes.end, self.process)
            if not number:
                self._publisher = self.entrance()
                self._stack.callback(self._publisher.close)

    def publish(self, topics: Sequence[int]) -> None:
        self.enter(self._publisher, [record(topic) for topic in topics])

    def subscribed(self, subscribers: int) -> None:
        """Waits for the path: a subscription that came last is the last to reach the publisher's broker."""
        with handshake(self.endpoint) as last:
            asked = {"type": "subscribe", "id": 1, "channel": f"feed:{FEED}", "args": ["kind = 'probe'"]}
            last.sendall(masked(b'{"type":"hello","id":0}') + masked(json.dumps(asked).encode()))
            last.settimeout(0.1)
            received, end = b"", time.monotonic() + 60
            while b'"kind":"probe"' not in received:
                if time.monotonic() > end:
                    raise RuntimeError(f"nothing is delivered: {received[:1000]!r}")
                self.enter(self._publisher, [record(0, "probe")])
                try:
                    received += last.recv(65_536)
                except TimeoutError:
                    continue


class Chain(Live):
    name = "Tocsin, live feed, three hops"
    links = 3


class Unequal(Live):
    """Every connection has other conditions, also on the same kind."""

    name = "Tocsin, live feed"

    def condition(self, number: int, topic: int) -> str:
        return condition(topic, number + 1)


class Stored(FeedBroker):
    """A feed with a dataset: delivered once durable. ``spark``: the data cluster is a process with Spark."""

    name = "Tocsin, stored feed"
    note = "Tocsin, stored feed: the data cluster commits a publication to disk, then notifies the broker"

    def __init__(self, core: int | None = processes.SERVER_CORE, spark: bool = True) -> None:
        super().__init__(core)
        self._spark = spark
        self._held = ExitStack()

    def start(self) -> None:
        if self._spark:
            cores = [processes.SERVER_CORE, processes.COUNTER_CORE]
            child = self._held.enter_context(ours.child(cores))
            self._url = child.url
            if self.core is not None:
                machine.pin(child.pid, [self.core])
        super().start()
        data = ours.Child(self._url, 0)
        data.sql(
            f"CREATE DATASET {FEED}Seen (kind string, severity int, text string); CREATE FEED {FEED}; "
            f"CONNECT FEED {FEED} TO DATASET {FEED}Seen; START FEED {FEED};"
        )
        self._publisher = Publisher(lambda: load.connect(data.port), [b"HTTP/1.1 4", b"HTTP/1.1 5", b'"code":'])
        self._at_broker = self.entrance()
        self._held.callback(self._publisher.close)
        self._held.callback(self._at_broker.close)

    def publish(self, topics: Sequence[int]) -> None:
        """At the data cluster."""
        for topic in topics:
            self._publisher.send(load.http_post(f"/feeds/{FEED}", record(topic), "application/json"))

    def publish_at_broker(self, topics: Sequence[int]) -> None:
        self.enter(self._at_broker, [record(topic) for topic in topics])

    def stop(self) -> None:
        super().stop()
        self._held.close()


# -- peers -------------------------------------------------------------------------------------------------------------


class SameRecords(servers.Packaged):
    """Publishes the records that Tocsin gets."""

    @property
    def endpoint(self) -> Endpoint:
        return replace(super().endpoint, marker=MARKER)

    def payload(self, topic: bytes) -> bytes:
        return record(int(topic[1:]))


class Redis(SameRecords, servers.Redis):
    name = "Redis pub/sub"

    def message(self, topic: bytes) -> bytes:
        return wire.redis_publish(topic, self.payload(topic))


class Mosquitto(SameRecords, servers.Mosquitto):
    def message(self, topic: bytes) -> bytes:
        return wire.mqtt_publish(topic, self.payload(topic))


class Nats(SameRecords, servers.NatsTcp):
    """Subjects in a hierarchy."""

    name = "NATS core"
    settings = " over TCP"

    def find(self) -> Binary:
        return nats_server()

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        return Opening([wire.nats_subscribe([b"alarms.t%d" % topic for topic in topics])], 1)

    def message(self, topic: bytes) -> bytes:
        return wire.nats_publish(b"alarms." + topic, self.payload(topic))


class JetStream(Nats):
    """A stream on disk, synced before each delivery, and a push consumer whose messages all subscribers get."""

    name = "JetStream, one consumer for all"
    settings = ", file storage, sync always"

    @staticmethod
    def missing() -> str:
        """Why it cannot take part, if so."""
        found = nats_server().version("--version")
        return "" if syncs_always(found) else f"JetStream is left out: NATS {found} cannot sync always; install Go."

    def consumers(self, subscribers: int) -> list[str]:
        """The subjects that they deliver to."""
        return ["stored"]

    def command(self, folder: Path) -> list[str]:
        words = super().command(folder)
        with (folder / "nats.conf").open("a") as out:
            out.write(f'jetstream {{ store_dir: "{folder / "stream"}", sync_interval: always }}\n')
        return words

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        return Opening([wire.nats_subscribe([self.consumers(number + 1)[-1].encode()])], 1)

    def hello(self) -> bytes:
        return super().hello() + b"SUB answers 1\r\n"

    def start(self) -> None:
        super().start()
        self._ask("STREAM.CREATE.ALARMS", {"name": "ALARMS", "subjects": ["alarms.*"], "storage": "file"})

    def subscribed(self, subscribers: int) -> None:
        for subject in self.consumers(subscribers):
            how = {"deliver_subject": subject, "deliver_policy": "new", "ack_policy": "none", "mem_storage": True}
            self._ask("CONSUMER.CREATE.ALARMS", {"stream_name": "ALARMS", "config": how})

    def message(self, topic: bytes) -> bytes:
        """The server answers once it is stored."""
        payload = self.payload(topic)
        return b"PUB alarms.%b answers %d\r\n%b\r\n" % (topic, len(payload), payload)

    def _ask(self, what: str, given: dict[str, Any]) -> None:
        assert self._publisher is not None
        body = json.dumps(given).encode()
        self._publisher.sendall(b"PUB $JS.API.%b answers %d\r\n%b\r\n" % (what.encode(), len(body), body))
        received = b""
        while not (b"MSG answers " in received and received.endswith(b"}\r\n")):
            part = self._publisher.recv(65_536)
            if not part or b"-ERR" in part:
                raise RuntimeError(f"JetStream answered {received + part!r}")
            received += part
        if b'"error":' in received:
            raise RuntimeError(f"JetStream refused {what}: {received!r}")


class JetStreamEach(JetStream):
    """As subscribers have it that resume each on its own."""

    name = "JetStream, a consumer each"

    def consumers(self, subscribers: int) -> list[str]:
        return [f"stored.{number}" for number in range(subscribers)]
