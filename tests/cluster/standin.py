"""A small data cluster in memory, for behaviour that the real one rarely shows: slow, failing, disconnected."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import msgspec
import pyarrow as pa

from tocsin.cluster.model import Post
from tocsin.cluster.ops.metrics import Metrics
from tocsin.errors import NotFound, ParseError, RecordsRefused
from tocsin.http.tls import Tls
from tocsin.identity.grants import Policy
from tocsin.identity.part_keys import PartGate, PartKey
from tocsin.wire.join import Join


class Outcome(msgspec.Struct):
    statement: int
    kind: str
    message: str
    rows: int | None = None
    data: dict[str, Any] = {}
    table: Any = None


class Progress(msgspec.Struct):
    statement: int
    done: float
    rows: int
    text: str


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def failed(error: Exception) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


class StandIn:
    """One feed ``reports`` and one channel ``alarms``. Statements are the words of a script between semicolons."""

    tls = Tls()
    gate = PartGate("data cluster", PartKey(b"k" * 32, "data cluster"), "")

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.admin_token = "secret"
        self.policy = Policy(open=True)
        self.state: dict[str, Any] = {"ready": True, "spark": "up", "reason": "", "committer": True}
        self.posts: list[Post] = []
        self.ran: list[str] = []
        self.closed_streams: list[str] = []
        self.broken: dict[str, Exception] = {}
        self.hold = threading.Event()
        self.held = threading.Event()
        self.closed = False

    def start(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def wait_ready(self, timeout: float | None = None) -> None: ...

    def status(self) -> dict[str, Any]:
        self._break("status")
        return self.state

    def run(
        self, script: str, progress: Callable[[Any], None] | None = None, principal: Any = None
    ) -> Iterator[Outcome]:
        for number, statement in enumerate(word.strip() for word in script.split(";")):
            if statement == "wrong":
                raise ParseError("unexpected wrong", line=1, column=script.index("wrong") + 1, statement=number)
            if statement == "crash":
                raise ZeroDivisionError("secret detail")
            if statement == "hold":
                self.held.set()
                self.hold.wait(120)
            if progress is not None:
                progress(Progress(number, 0.5, 10, statement))
            self.ran.append(statement)
            table = pa.table({"a": [1, 2], "b": ["x", None]}) if statement == "select" else None
            yield Outcome(number, "query" if table else "word", f"{statement} done", 2 if table else None, {}, table)

    def query(self, sql: str, principal: Any = None) -> pa.Table:
        self._break("query")
        if sql == "empty":
            return pa.table({"a": pa.array([], pa.int64())})
        return pa.table({"a": [1, 2], "b": ["x", None]})

    def publish(self, post: Post) -> Future[Any]:
        self._break("publish")
        if post.feed != "reports":
            return failed(NotFound("feed", post.feed))
        if post.body == b"hold":
            self.held.set()
            self.hold.wait(120)
        if post.atomic:
            return failed(RecordsRefused("1 of 2 records do not fit", refused=[]))
        self.posts.append(post)
        return done(
            {"feed": "reports", "dataset": "Reports", "accepted": 1, "refused": [], "ordinal": 1, "repeated": False}
        )

    def channels(self) -> list[dict[str, Any]]:
        self._break("channels")
        return []

    def channel(self, name: str) -> dict[str, Any]:
        if name != "alarms":
            raise NotFound("channel", name)
        return {"name": "alarms"}

    def brokers(self) -> list[dict[str, Any]]:
        return []

    def register_broker(self, name: str, url: str, matched: bool = False, join: Join | None = None) -> dict[str, Any]:
        return {"name": name, "url": url, "state": "up"}

    def key_of(self, name: str) -> str:
        return ""

    def sender(self, headers: Any) -> None:
        return None

    def join(self, name: str, join: Join) -> Any:
        return self.gate.admit(name, "", join, "")

    def epoch(self, channel: str) -> int:
        self.channel(channel)
        return 7

    def position(self, channel: str) -> int:
        return 41

    def subscribe(self, channel: str, broker: str, args: list[Any]) -> Future[Any]:
        self.channel(channel)
        return done(list(range(1, len(args) + 1)))

    def unsubscribe(self, channel: str, ids: list[int], broker: str | None) -> Future[Any]:
        return done(len([id for id in ids if id < 100]))

    def migrate(self, channel: str, id: int, args: Any, source: str | None, target: str) -> Future[Any]:
        return done(id)

    def subscriptions(self, channel: str, broker: str | None, after: int, limit: int) -> list[dict[str, Any]]:
        return []

    def subscription(self, channel: str, id: int) -> dict[str, Any]:
        self.channel(channel)
        if id >= 100:
            raise NotFound("subscription", str(id))
        return {"subscription": id, "args": [], "brokers": ["b"], "begins_after": 41}

    def executions(self, channel: str, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        return []

    def wait_execution(self, channel: str, after: int, timeout: float) -> int:
        self.held.set()
        return 1 if self.hold.wait(timeout) else 0

    def pull(self, channel: str, number: int, broker: str) -> Iterator[bytes]:
        if number == 404:
            raise NotFound("execution", "404")
        try:
            yield b'{"subscription":1}\n'
            self._break("pull")
            if number == 99:
                while True:
                    yield b"x" * 100_000
        finally:
            self.closed_streams.append("pull")
            self.held.set()

    def results(
        self, channel: str, subscription: int, after: int = 0, limit: int = 100, strict: bool = False
    ) -> Iterator[bytes]:
        yield from ()

    def _break(self, what: str) -> None:
        if what in self.broken:
            raise self.broken[what]
