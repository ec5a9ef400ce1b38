"""A small data cluster without Spark, and real brokers on it: what the client's tests need of both.

One channel ``Alarms(kind)``, one feed ``Reports``: each post of records is an execution.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from served import environment


class Cluster:
    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.brokers: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.holders: dict[int, set[str]] = {}
        self.executions: list[dict[int, list[Any]]] = []
        self.ended = False
        self._tellers: dict[str, threading.Thread] = {}
        handler = type("Handler", (Handler,), {"cluster": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self._client = httpx.Client(timeout=5, trust_env=False)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def end(self) -> None:
        with self.lock:
            self.ended = True
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        for teller in self._tellers.values():
            teller.join()
        self._client.close()

    def register(self, name: str, url: str) -> None:
        with self.lock:
            self.brokers[name] = url
            if name not in self._tellers:
                start = len(self.executions)
                self._tellers[name] = threading.Thread(target=self._tell, args=(name, start))
                self._tellers[name].start()

    def _tell(self, name: str, told: int) -> None:
        """Until the broker has heard of it, dead or alive."""
        while True:
            with self.lock:
                while not self.ended and len(self.executions) <= told:
                    self.lock.wait()
                if self.ended:
                    return
                mine = any(name in self.holders.get(number, ()) for number in self.executions[told])
                url = self.brokers[name]
            if not mine:
                told += 1
                continue
            try:
                message = {"broker": name, "channel": "Alarms", "execution": told + 1}
                self._client.post(url, json=message).raise_for_status()
                told += 1
            except httpx.HTTPError:
                with self.lock:
                    self.lock.wait(0.05)

    def subscribe(self, broker: str, wanted: list[Any]) -> list[int]:
        with self.lock:
            found = []
            for args in wanted:
                kind = args["kind"] if isinstance(args, dict) else args[0]
                number = self.numbers.setdefault(kind, len(self.numbers) + 1)
                self.holders.setdefault(number, set()).add(broker)
                found.append(number)
            return found

    def unsubscribe(self, broker: str, numbers: list[int]) -> None:
        with self.lock:
            for number in numbers:
                self.holders[number].discard(broker)

    def execute(self, records: list[dict[str, Any]]) -> None:
        with self.lock:
            results: dict[int, list[Any]] = {}
            for record in records:
                number = self.numbers.get(record["kind"])
                if number is not None:
                    results.setdefault(number, []).append({"id": record["id"]})
            self.executions.append(results)
            self.lock.notify_all()

    def lines(self, after: int, through: int, broker: str | None = None, number: int | None = None) -> Iterator[Any]:
        with self.lock:
            for execution in range(after + 1, through + 1):
                for each, results in self.executions[execution - 1].items():
                    if each == number or (broker is not None and broker in self.holders[each]):
                        yield {"subscription": each, "execution": execution, "count": len(results), "results": results}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet
    cluster: Cluster

    def _go(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = re.sub("^/channels/alarms", "/channels/Alarms", url.path, flags=re.IGNORECASE)
        status, answer = self._answer(f"{self.command} {path}", asked, body)
        lines = isinstance(answer, Iterator)
        data = b"".join(json.dumps(each).encode() + b"\n" for each in answer) if lines else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = _go

    def _answer(self, what: str, asked: dict[str, str], body: bytes) -> tuple[int, Any]:
        cluster = self.cluster
        last = len(cluster.executions)
        if found := re.fullmatch("PUT /brokers/(.+)", what):
            cluster.register(found[1], json.loads(body)["url"])
            return 200, {"returned": False}
        if what == "GET /channels":
            return 200, {"channels": [{"name": "Alarms", "last_execution": last}]}
        if what == "GET /channels/Alarms/subscriptions":
            held = [(number, kind) for kind, number in cluster.numbers.items()]
            mine = [{"subscription": n, "args": [kind]} for n, kind in held if asked["broker"] in cluster.holders[n]]
            return 200, {"subscriptions": mine if asked["after"] == "0" else []}
        if what == "POST /channels/Alarms/subscriptions":
            wish = json.loads(body)
            numbers = cluster.subscribe(wish["broker"], wish["subscriptions"])
            return 200, {"subscriptions": numbers, "position": len(cluster.executions)}
        if what == "POST /channels/Alarms/unsubscribe":
            wish = json.loads(body)
            cluster.unsubscribe(wish["broker"], wish["subscriptions"])
            return 200, {}
        if found := re.fullmatch(r"GET /channels/Alarms/executions/(\d+)/results", what):
            return 200, cluster.lines(int(found[1]) - 1, int(found[1]), broker=asked["broker"])
        if found := re.fullmatch(r"GET /channels/Alarms/subscriptions/(\d+)/results", what):
            every = list(cluster.lines(int(asked["after"]), last, number=int(found[1])))
            return 200, iter(every[: int(asked["limit"])])
        if what == "POST /feeds/Reports":
            records = [json.loads(line) for line in body.split(b"\n")]
            refused = [
                {"index": n, "code": "missing", "reason": "no id"} for n, r in enumerate(records) if "id" not in r
            ]
            cluster.execute([record for record in records if "id" in record])
            return 200, {"taken": len(records) - len(refused), "refused": refused, "repeated": False}
        kind = what.split("/")[1].rstrip("s")
        message = f"there is no {kind} {what.split('/')[2]!r}"
        return 404, {"error": {"code": "not_found", "message": message, "kind": kind}}

    def log_message(self, *_: object) -> None: ...


class Broker:
    """A real broker process; after ``kill`` it can be started again on the same port."""

    def __init__(self, cluster: str, home: Path, name: str = "b", **settings: Any) -> None:
        self._options = ["--json", "--name", name, "--cluster", cluster, "--home", str(home)]
        self._env = environment(
            **{f"TOCSIN_BROKER_{key.upper()}": json.dumps(value) for key, value in settings.items()}
        )
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tocsin.cli", "broker", *self._options, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=self._env)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if said["event"] == "ready":
                self.url = said["url"]
                self.port = int(self.url.rpartition(":")[2])
                return
        raise AssertionError(f"the broker ended with {self._process.wait()}")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._gone()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._gone()

    def _gone(self) -> None:
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    try:
        yield found
    finally:
        found.end()


@contextmanager
def broker(cluster: Cluster, home: Path, name: str = "b", **settings: Any) -> Iterator[Broker]:
    found = Broker(cluster.url, home / name, name, **settings)
    try:
        yield found
    finally:
        found.end()
