"""A data cluster as a child process that a test may kill at any step. Run as a script; talks in lines of JSON.

    killed.py ingest HOME N       posts N records one by one with an Idempotency-Key each; no Spark
    killed.py execute HOME N      a continuous channel over the records, with Spark; ends when it has seen all of them
    killed.py load HOME N         executors write a load of N records as one commit

``{"acknowledged": i}`` is printed after the receipt of record i; with TOCSIN_KILL_AT the process dies on the way.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tocsin.cluster.model import Broker, Dataset, Feed, Post
from tocsin.cluster.service import DataCluster
from tocsin.config import ClusterConfig

SETUP = """
CREATE ACTIVE DATASET IF NOT EXISTS Reports (n bigint NOT NULL, kind string NOT NULL);
CREATE FEED IF NOT EXISTS ReportFeed;
CONNECT FEED ReportFeed TO DATASET Reports;
START FEED ReportFeed;
"""

CHANNEL = """
CREATE CONTINUOUS CHANNEL IF NOT EXISTS OfKind(kind string) {
  SELECT r.n FROM Reports r WHERE is_new(r) AND r.kind = kind
};
SUBSCRIBE TO OfKind('fire') ON b;
"""


def report(**line: object) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")  # one call: several threads print


def prepare(cluster: DataCluster) -> None:
    feed = cluster.context.definitions.find(Feed, "ReportFeed")
    if feed is None or not feed.running:
        cluster.execute(SETUP)


def post(cluster: DataCluster, number: int) -> None:
    body = json.dumps({"n": number, "kind": "fire"}).encode()
    receipt = cluster.publish(Post("ReportFeed", body, idempotency_key=f"r{number}")).result(120)
    assert receipt.accepted == 1
    report(acknowledged=number)


def ingest(home: str, count: int) -> None:
    cluster = DataCluster(ClusterConfig(home=home, tail_segments=8))
    cluster.start(spark=False)
    prepare(cluster)
    threads = [threading.Thread(target=post, args=(cluster, number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Compaction is another step at which it may die.
    for store in cluster.context.stores.values():
        cluster.compactor.run(store)
    cluster.close()
    report(done=True)


class NotificationSink(BaseHTTPRequestHandler):
    """A broker that prints its notifications."""

    def do_POST(self) -> None:
        notified = json.loads(self.rfile.read(int(self.headers["content-length"])))
        for each in notified if isinstance(notified, list) else [notified]:
            report(notified=each["execution"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Quiet."""


def execute(home: str, count: int) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NotificationSink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = ClusterConfig(home=home, master="local[1]", driver_memory="512m", tail_segments=4, brief=True)
    cluster = DataCluster(config)
    cluster.start()
    cluster.register_broker("b", f"http://127.0.0.1:{server.server_port}/")
    prepare(cluster)
    cluster.wait_ready(450)
    cluster.execute(CHANNEL)
    report(ready=True)
    first = cluster.context.stores[cluster.context.definitions.get(Dataset, "Reports").id].head
    for number in range(first * 1000, first * 1000 + count):
        post(cluster, number)
    runner = next(iter(cluster.channel_manager.runners.values()))
    while runner.lagging():
        cluster.wait_execution("OfKind", runner.number, 1.0)
    for status in cluster.channel_manager.notifier.status().values():
        assert status["failures"] == 0, status
    while cluster.context.catalog.outbox(cluster.context.definitions.get(Broker, "b").id):
        cluster.wait_execution("OfKind", runner.number, 0.1)
    cluster.close()
    report(done=True)


def load(home: str, count: int) -> None:
    source = Path(home).resolve() / "load.json"
    source.write_text("".join(json.dumps({"n": number, "kind": "fire"}) + "\n" for number in range(count)))
    config = ClusterConfig(
        home=home, master="local[1]", driver_memory="512m", brief=True, bulk_bytes=0, load_paths=(home,)
    )
    cluster = DataCluster(config)
    cluster.start()
    prepare(cluster)
    cluster.wait_ready(450)
    cluster.execute(f"LOAD DATASET Reports FROM '{source}'")
    report(loaded=True)
    cluster.close()
    report(done=True)


if __name__ == "__main__":
    {"ingest": ingest, "execute": execute, "load": load}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
