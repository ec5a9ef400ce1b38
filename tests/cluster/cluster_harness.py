"""Helpers for tests of the whole data cluster: a cluster on the shared Spark session, and a broker that listens."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg import sql

from tocsin.cluster.channels.runner import ChannelRunner, Run
from tocsin.cluster.model import Channel, Post
from tocsin.cluster.service import DataCluster
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.config import ClusterConfig


class Listener:
    """A broker that keeps its notifications. It answers with ``statuses`` first, and then with success."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.messages: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = listener.statuses.pop(0) if listener.statuses else 204
                self.send_response(status)
                self.end_headers()
                if status == 204:
                    with listener.changed:
                        listener.messages += body if isinstance(body, list) else [body]
                        listener.changed.notify_all()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/notify"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, count: int, timeout: float = 120.0) -> list[dict[str, Any]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.messages) >= count, timeout), self.messages
            return list(self.messages)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class ManualCluster(DataCluster):
    """A data cluster whose channels can be run by hand, so that tests need not wait for periods."""

    def runner(self, channel: str) -> ChannelRunner:
        return self.channel_manager.runners[self.context.definitions.get(Channel, channel).id]

    def run_channel(self, channel: str) -> Run:
        return self.runner(channel).run()

    def post(self, feed: str, *records: dict[str, Any]) -> int:
        receipt = self.publish(Post(feed, msgspec.json.encode(list(records)))).result(120)
        assert not receipt.refused, receipt.refused
        return receipt.accepted

    def subscribed(self, channel: str, *args: Any, broker: str = "b") -> int:
        (number,) = self.subscribe(channel, broker, [list(args)]).result(120)
        return number

    def results_of(self, channel: str, subscription: int, after: int = 0) -> list[list[Any]]:
        """The results of the subscription, one list for each execution."""
        lines = b"".join(self.results(channel, subscription, after)).splitlines()
        return [json.loads(line)["results"] for line in lines]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        table = self.query(sql)
        return [tuple(row.values()) for row in table.to_pylist()]

    def wait_results(self, channel: str, subscription: int, count: int) -> list[Any]:
        """Waits until the subscription has ``count`` results in all."""
        after = 0
        while True:
            found = [item for group in self.results_of(channel, subscription) for item in group]
            if len(found) >= count:
                return found
            newest = self.wait_execution(channel, after, 120.0)
            assert newest > after, f"no further execution; {found}"
            after = newest


def _catalog(home: Path) -> str:
    """With TOCSIN_TEST_CATALOG a PostgreSQL database of its own for each home, else SQLite."""
    server = os.environ.get("TOCSIN_TEST_CATALOG", "")
    if not server:
        return ""
    name = f"lab_{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"
    with psycopg.connect(server, autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return urlsplit(server)._replace(path=f"/{name}").geturl()


@contextmanager
def running_cluster(home: Path, runtime: SparkRuntime, **settings: Any) -> Iterator[ManualCluster]:
    settings.setdefault("catalog", _catalog(home))
    config = msgspec.structs.replace(
        ClusterConfig(home=str(home), master=runtime.config.master, driver_memory="1g", port=0), **settings
    )
    cluster = ManualCluster(config, runtime)
    cluster.start()
    try:
        cluster.wait_ready(300)
        yield cluster
    finally:
        cluster.close()
