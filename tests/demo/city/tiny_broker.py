"""A broker of a few lines: it subscribes people, is notified of executions, and pulls the results."""

from __future__ import annotations

import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import msgspec

BROKER = "tiny"


class FESubscription(NamedTuple):
    user: str
    channel: str
    args: tuple[str, ...]


class Line(NamedTuple):
    """The results of one subscription."""

    people: tuple[str, ...]
    args: tuple[str, ...]
    results: list[dict[str, Any]]


class Delivery(NamedTuple):
    """The results of one pull."""

    channel: str
    execution: int
    lines: list[Line]

    @property
    def results(self) -> int:
        return sum(len(line.results) for line in self.lines)


class TinyBroker:
    """A real broker, only small: an HTTP address for notifications of executions, and one pull for each."""

    def __init__(self, cluster: httpx.Client, deliver: Callable[[Delivery], None]) -> None:
        self._cluster = cluster
        self._deliver = deliver
        self._executions: queue.Queue[tuple[str, int] | None] = queue.Queue()
        self._people: dict[tuple[str, int], list[FESubscription]] = defaultdict(list)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._executions))
        self._server.daemon_threads = True
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="tiny broker", daemon=True),
            threading.Thread(target=self._pull_all, name="tiny puller", daemon=True),
        ]
        self.pulled: Counter[str] = Counter()
        self.error: Exception | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/notify"

    @property
    def subscriptions(self) -> int:
        return len(self._people)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        self._cluster.put(f"/brokers/{BROKER}", json={"url": self.url}).raise_for_status()

    def subscribe(self, subscriptions: list[FESubscription]) -> None:
        """One request a channel; equal subscriptions share one BE subscription, and so its id."""
        for channel in dict.fromkeys(each.channel for each in subscriptions):
            mine = [each for each in subscriptions if each.channel == channel]
            body = {"broker": BROKER, "subscriptions": [list(each.args) for each in mine]}
            answer = self._cluster.post(f"/channels/{quote(channel)}/subscriptions", json=body).raise_for_status()
            for each, id_ in zip(mine, answer.json()["subscriptions"], strict=True):
                self._people[channel, int(id_)].append(each)

    def stop(self) -> None:
        """Pulls the executions that it was notified of until now, then ends."""
        self._server.shutdown()
        self._server.server_close()
        self._executions.put(None)
        self._threads[1].join(timeout=10)

    def _pull_all(self) -> None:
        try:
            while (execution := self._executions.get()) is not None:
                self._deliver(self._pull(*execution))
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            self.error = error

    def _pull(self, channel: str, execution: int) -> Delivery:
        path = f"/channels/{quote(channel)}/executions/{execution}/results"
        answer = self._cluster.get(path, params={"broker": BROKER}).raise_for_status()
        lines = []
        for row in msgspec.json.Decoder().decode_lines(answer.content):
            subscribers = self._people[channel, int(row["subscription"])]
            if subscribers:
                lines.append(Line(tuple(each.user for each in subscribers), subscribers[0].args, row["results"]))
        delivery = Delivery(channel, execution, lines)
        self.pulled[channel] += delivery.results
        return delivery


def _handler(executions: queue.Queue[tuple[str, int] | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answers at once: pulling takes time, and the cluster has other brokers to notify."""
            message = msgspec.json.decode(self.rfile.read(int(self.headers.get("content-length", 0))))
            for each in message if isinstance(message, list) else [message]:
                executions.put((each["channel"], int(each["execution"])))
            self.send_response(204)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    return Handler
