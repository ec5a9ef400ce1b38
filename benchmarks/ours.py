"""The system under test: a data cluster in this process, or as a real child process behind HTTP."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.peers import family
from tocsin.cluster.channels.runner import ChannelRunner
from tocsin.cluster.model import Channel, Post
from tocsin.cluster.service import DataCluster
from tocsin.config import ClusterConfig
from tocsin.demo.city.reports import KINDS

EMERGENCY = Path(__file__).parent.parent / "examples" / "emergency.sql"
COLUMNS = ("report_id", "kind", "location", "lat", "lon", "severity", "message", "time")
BROKER = "bench"
#: No server listens there: fine where results are pulled and nothing depends on notifications.
UNREACHABLE = "http://127.0.0.1:9/"

REPORTS = """
CREATE ACTIVE DATASET EmergencyReports (
  report_id string NOT NULL, kind string NOT NULL, location string, lat double NOT NULL, lon double NOT NULL,
  severity int, message string, time timestamp
);
CREATE FEED Reports; CONNECT FEED Reports TO DATASET EmergencyReports; START FEED Reports;
"""
USERS = """
CREATE ACTIVE DATASET UserLocations (
  user_id string NOT NULL, lat double NOT NULL, lon double NOT NULL, time timestamp
) PRIMARY KEY user_id;
CREATE FEED Locations; CONNECT FEED Locations TO DATASET UserLocations; START FEED Locations;
"""
#: "Emergencies of type T at location L", as in examples/emergency.sql.
BODY = f"""
  SELECT {", ".join(f"r.{name}" for name in COLUMNS)}
  FROM EmergencyReports r
  WHERE is_new(r) AND r.kind = kind AND r.location = location
"""


def channel(name: str, continuous: bool = False) -> str:
    """The statement that creates it; a repetitive one has a period that never comes, and is driven by hand."""
    kind, period = ("CONTINUOUS", "") if continuous else ("REPETITIVE", 'PERIOD duration("P365D") ')
    return f"CREATE {kind} CHANNEL {name}(kind string, location string) {period}{{{BODY}}};"


# -- data --------------------------------------------------------------------------------------------------------------


def subscriptions(first: int, last: int) -> list[list[str]]:
    """Arguments number ``first`` to ``last``: all kinds of a location, then the next location."""
    return [[KINDS[n % len(KINDS)], f"location-{n // len(KINDS)}"] for n in range(first, last)]


def report(number: int, kind: str, location: str, size: int = 300) -> dict[str, Any]:
    """A report whose JSON has about ``size`` bytes."""
    # Every report has another place, so that the data compresses no better than real data.
    north, east = number * 2654435761 % 2**32 / 2**32, number * 2246822519 % 2**32 / 2**32
    record = {
        "report_id": f"r{number:09}",
        "kind": kind,
        "location": location,
        "lat": round(60.15 + north * 0.07, 6),
        "lon": round(24.86 + east * 0.19, 6),
        "severity": 1 + number % 5,
        "message": "",
        "time": "2026-11-20T12:00:00.000Z",
    }
    text = f"{kind.capitalize()} at {location}: keep doors and windows closed until further notice. " * 4
    record["message"] = text[: max(0, size - len(msgspec.json.encode(record)))]
    return record


def matching(start: int, count: int, among: int) -> list[dict[str, Any]]:
    """Reports that spread evenly over the first ``among`` subscriptions."""
    step = max(1, among // count)
    targets = [((start + n) * step) % among for n in range(count)]
    return [report(start + n, KINDS[at % len(KINDS)], f"location-{at // len(KINDS)}") for n, at in enumerate(targets)]


def ndjson(records: Sequence[Any]) -> bytes:
    return msgspec.json.Encoder().encode_lines(records)


# -- in this process ---------------------------------------------------------------------------------------------------


@contextmanager
def cluster(script: str = "", **settings: Any) -> Iterator[DataCluster]:
    """A data cluster in a temporary folder, ready, with the script run and one broker."""
    home = tempfile.mkdtemp(prefix="tocsin-bench-")
    data = DataCluster(ClusterConfig(home=home, port=0, **settings))
    try:
        data.start()
        data.wait_ready(180.0)
        data.execute(script)
        data.register_broker(BROKER, UNREACHABLE)
        yield data
    finally:
        data.close()
        shutil.rmtree(home, ignore_errors=True)


def runner_of(data: DataCluster, name: str) -> ChannelRunner:
    return data.channel_manager.runners[data.context.definitions.get(Channel, name).id]


def publish(data: DataCluster, feed: str, records: Sequence[Any]) -> None:
    receipt = data.publish(Post(feed, ndjson(records), content_type="application/x-ndjson")).result(120)
    if receipt.accepted != len(records):
        raise RuntimeError(f"{receipt.accepted} of {len(records)} records accepted: {receipt.refused[:1]}")


def subscribe(data: DataCluster, name: str, first: int, last: int) -> None:
    most = data.config.limits.subscriptions_per_request
    for start in range(first, last, most):
        data.subscribe(name, BROKER, subscriptions(start, min(last, start + most))).result(120)


# -- as a child --------------------------------------------------------------------------------------------------------


class Child:
    """A ``tocsin cluster`` process."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port or 0

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Any:
        """One request on a connection of its own; for the set-up, not for what is measured."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
        try:
            connection.request(method, path, body or None, {"Content-Type": kind} if body else {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return text

    def sql(self, script: str) -> None:
        self.call("POST", "/sql", script.encode(), "text/plain")

    def subscribe(self, name: str, args: Sequence[Any], broker: str = BROKER) -> list[int]:
        body = msgspec.json.encode({"broker": broker, "subscriptions": list(args)})
        numbers: list[int] = json.loads(self.call("POST", f"/channels/{name}/subscriptions", body))["subscriptions"]
        return numbers


@contextmanager
def child(cores: Sequence[int] | None = None, **settings: str) -> Iterator[Child]:
    """``tocsin cluster`` in a temporary folder, ready; ``settings`` become TOCSIN_* variables."""
    home = Path(tempfile.mkdtemp(prefix="tocsin-bench-"))
    ready = home / "ready.json"
    command = [sys.executable, "-m", "tocsin.cli", "cluster"]
    command += ["--home", str(home / "data"), "--port", "0", "--ready-file", str(ready)]
    environment = os.environ | {f"TOCSIN_{name.upper()}": value for name, value in settings.items()}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
        )
    try:
        end = time.monotonic() + 180
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("tocsin cluster did not start: " + (home / "log").read_text()[-2000:])
            time.sleep(0.05)
        yield Child(json.loads(ready.read_bytes())["url"], process.pid)
    finally:
        _end(process)
        shutil.rmtree(home, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks it to stop; what has not ended in a minute is killed, with the JVM."""
    members = family(process.pid) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        for member in members:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


@contextmanager
def sink() -> Iterator[str]:
    """A broker that acknowledges every notification; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
