"""A data cluster's outbox with brokers that listen to it, and the notifier in between."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tocsin.cluster.model import Broker, Channel, Execution, OutboxEntry
from tocsin.cluster.notify.notifier import Notifier
from tocsin.cluster.storage.catalog import Catalog, open_catalog
from tocsin.errors import StorageError

WAIT = 120.0
Answer = int | Callable[[], int]


class Listener:
    """The HTTP server of a broker: answers as ``answers`` says, then 200, and keeps its notifications."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.notified: list[tuple[int, int]] = []
        self.changed = threading.Condition()
        self.requests = 0
        self.tokens: list[str | None] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with listener.changed:
                    listener.requests += 1
                    listener.tokens.append(self.headers["tocsin-part"])
                    answer = listener.answers.pop(0) if listener.answers else 200
                    listener.changed.notify_all()
                code = answer() if callable(answer) else answer
                if 200 <= code < 300:
                    with listener.changed:
                        notified = body if isinstance(body, list) else [body]
                        listener.notified += [(each["channel"], each["execution"]) for each in notified]
                        listener.changed.notify_all()
                self.send_response(code)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Not into the test's output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/notify"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def wait(self, count: int) -> list[tuple[int, int]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.notified) >= count, WAIT), self.notified
        return self.notified

    def wait_requests(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.requests >= count, WAIT)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class OutboxLab:
    """A catalog with one channel, its brokers, and the notifier under test."""

    def __init__(self, home: Path) -> None:
        self.catalog: Catalog = open_catalog("", str(home))
        self.catalog.acquire_lease()
        self.channel = Channel(self.catalog.new_id(), "C", "continuous", (), "SELECT 1")
        self.catalog.add_channel(self.channel, {})
        self.number = 0
        self.listeners: list[Listener] = []
        self.held: list[socket.socket] = []
        self.gone: list[str] = []
        self.settled = threading.Condition()
        self.watched = Watched(self.catalog, self.settled)
        self.clock = 0.0

    def broker(self, name: str, url: str) -> Broker:
        broker = Broker(self.catalog.new_id(), name, url)
        self.catalog.add(broker)
        return broker

    def listen(self, name: str, *answers: Answer) -> tuple[Broker, Listener]:
        listener = Listener(*answers)
        self.listeners.append(listener)
        return self.broker(name, listener.url), listener

    def dead_url(self) -> str:
        """An address where nothing listens, held so that no other process gets it."""
        held = socket.socket()
        held.bind(("127.0.0.1", 0))
        self.held.append(held)
        return f"http://127.0.0.1:{held.getsockname()[1]}/"

    def execute(self, *brokers: Broker) -> int:
        self.number += 1
        execution = Execution(self.channel.id, self.number, 1.0, 1.0, 1, 1, 1, None)
        self.catalog.record(execution, {}, [broker.id for broker in brokers])
        return self.number

    def execute_together(self, broker: Broker, count: int) -> list[int]:
        """A reader of the outbox finds all of them or none."""
        with self.watched.gate:
            return [self.execute(broker) for _ in range(count)]

    def declare_gone(self, broker: Broker) -> None:
        self.catalog.replace(Broker(broker.id, broker.name, broker.url, "gone"))
        self.gone.append(broker.name)

    @contextmanager
    def notifier(
        self, message: Callable[[Broker, OutboxEntry], bytes | None] | None = None, **options: Any
    ) -> Iterator[Notifier]:
        defaults = {"gone_after": 1e9, "min_backoff": 0.001, "max_backoff": 0.01, "timeout": WAIT}
        options = {**defaults, "rng": random.Random(1), **options}
        notifier = Notifier(
            self.watched,
            message or encode,
            declare_gone=self.declare_gone,
            monotonic=self.tick,
            **options,
        )
        notifier.start()
        try:
            yield notifier
        finally:
            notifier.stop()

    def tick(self) -> float:
        """A clock that advances by a second at each reading."""
        self.clock += 1.0
        return self.clock

    def wait_empty(self, *brokers: Broker) -> None:
        """Waits until the outbox has no entries for these brokers."""
        with self.settled:
            assert self.settled.wait_for(lambda: not any(self.catalog.outbox(broker.id) for broker in brokers), WAIT)

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        for held in self.held:
            held.close()
        self.catalog.close()


class Watched:
    """The catalog, which notifies the test whenever entries were deleted and can fail to delete them."""

    def __init__(self, catalog: Catalog, bell: threading.Condition) -> None:
        self.catalog = catalog
        self.bell = bell
        self.faults = 0
        self.transactions = 0
        self.gate = threading.Lock()

    def outbox(self, broker: int, limit: int = 100, known: Collection[OutboxEntry] = ()) -> list[OutboxEntry]:
        with self.gate:
            return self.catalog.outbox(broker, limit, known)

    def all(self, kind: type[Broker]) -> list[Broker]:
        return self.catalog.all(kind)

    def delete_notified(self, entries: Any) -> None:
        if self.faults:
            self.faults -= 1
            raise StorageError("the disk is full")
        self.transactions += 1
        self.catalog.delete_notified(entries)
        with self.bell:
            self.bell.notify_all()

    def delete_outbox(self, broker: int) -> int:
        count = self.catalog.delete_outbox(broker)
        with self.bell:
            self.bell.notify_all()
        return count


def encode(broker: Broker, entry: OutboxEntry) -> bytes:
    return json.dumps({"channel": entry.channel, "execution": entry.execution}).encode()
