"""A real data cluster without Spark: the test provides the results of executions. Everything else is real.

As a script it runs in its own process, which can be killed, and reads commands as lines of JSON from standard input:

    {"execute": CHANNEL, "found": [[args, rows], …]}     answered by {"execution": N}
    {"last": CHANNEL}                                    answered by {"execution": N}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import pyarrow as pa

from cluster_server import serving
from tocsin.cluster.model import Channel, Execution, Post, Receipt
from tocsin.cluster.service import DataCluster
from tocsin.cluster.storage.results import SCHEMA
from tocsin.config import ClusterConfig

SETUP = """
CREATE ACTIVE DATASET IF NOT EXISTS Reports (n bigint NOT NULL, kind string NOT NULL);
CREATE DATASET IF NOT EXISTS Locations (user string NOT NULL, lat double, lon double) PRIMARY KEY user;
CREATE FEED IF NOT EXISTS LocationFeed;
CREATE CONTINUOUS CHANNEL IF NOT EXISTS OfKind(kind string) {
  SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind
};
CREATE CONTINUOUS CHANNEL IF NOT EXISTS Above(least bigint) {
  SELECT r.n FROM Reports r WHERE is_new(r) AND r.n > least
};
CREATE CONTINUOUS PUSH CHANNEL IF NOT EXISTS PushedAbove(least bigint) {
  SELECT r.n FROM Reports r WHERE is_new(r) AND r.n > least
};
"""
FEED = "CONNECT FEED LocationFeed TO DATASET Locations; START FEED LocationFeed;"


class Sparkless(DataCluster):
    """``posted`` is called with a feed and the records that it took, before the post is answered.

    ``committed`` is when the last execution was, on the monotonic clock.
    """

    posted: Callable[[str, list[Any]], Any] | None = None
    committed = 0

    def publish(self, post: Post) -> Future[Receipt]:
        receipt = super().publish(post)
        receipt.add_done_callback(lambda done: self._taken(post.feed, post.body, done))
        return receipt

    def _taken(self, feed: str, body: bytes, done: Future[Receipt]) -> None:
        if self.posted is None or done.exception() is not None or done.result().repeated:
            return
        records = json.loads(body) if body.startswith(b"[") else [json.loads(line) for line in body.splitlines()]
        refused = {each.index for each in done.result().refused}
        self.posted(feed, [record for index, record in enumerate(records) if index not in refused])

    def start(self, *, spark: bool = False) -> None:
        super().start(spark=False)
        # Only Spark knows what columns a body has.
        self.ddl._analyse = lambda compiled: ()  # type: ignore[method-assign]
        self.ddl._check_execution = lambda channel, compiled: None  # type: ignore[method-assign]
        self.wait_ready = lambda timeout=None: None  # type: ignore[method-assign]
        fresh = not self.context.definitions.all(Channel)
        for _ in self.run(SETUP + (FEED if fresh else "")):
            pass

    def found(self, channel: str, *found: tuple[list[Any], list[Any]]) -> int:
        """Records an execution with these rows for the subscriptions with these arguments, and returns its number."""
        context = self.context
        definition = context.definitions.get(Channel, channel)
        runner, table = self.channel_manager.runners[definition.id], context.tables[definition.id]
        payloads: dict[int, list[Any]] = {}
        for args, rows in found:
            number = table.find(table.canonical(args))
            if number is not None and rows:
                payloads[number] = rows
        ids = sorted(payloads)
        columns = [ids, [len(payloads[number]) for number in ids], [json.dumps(payloads[number]) for number in ids]]
        grouped = pa.Table.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
        number = runner.number + 1
        written = context.results.write(definition.id, number, grouped)
        rows = sum(columns[1])
        with context.committer.lock:
            now = max(runner.last_time + 1e-6, 1.0)
            brokers = tuple(sorted(table.brokers_of(grouped["subscription_id"].to_numpy())))
            execution = Execution(definition.id, number, now, now, rows, len(ids), written.bytes, written.path)
            context.catalog.record(execution, {}, brokers)
            self.committed = time.monotonic_ns()
            runner.number, runner.last_time = number, now
            table.executed(number)
        with context.executed:
            context.executed.notify_all()
        self.channel_manager.notifier.wake(brokers)
        return number


@contextmanager
def sparkless(home: Path, **settings: Any) -> Iterator[tuple[Sparkless, str]]:
    """Yields the cluster and the address of its server."""
    config = ClusterConfig(home=str(home), port=settings.pop("port", 0), **settings)
    cluster = Sparkless(config)
    cluster.start()
    try:
        with serving(cluster, config) as url:
            yield cluster, url
    finally:
        cluster.close()


def main(home: str, port: str) -> None:
    with sparkless(Path(home), port=int(port)) as (cluster, url):
        os.write(1, json.dumps({"url": url}).encode() + b"\n")
        for line in sys.stdin:
            command = json.loads(line)
            if "execute" in command:
                number = cluster.found(command["execute"], *[(args, rows) for args, rows in command["found"]])
            else:
                number = cluster.position(command["last"])
            os.write(1, json.dumps({"execution": number}).encode() + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
