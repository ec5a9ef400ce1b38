"""Users over REST are subscribers of the load model, and migrate when the coordinator orders it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from broker_lab import broker
from rest_user import RestUser, events, rows

from sparkless import Sparkless
from tocsin.config import IdentityConfig
from tocsin.identity import messages as it
from tocsin.identity.part_keys import PartGate, PartKey
from tocsin.identity.service import IdentityService
from tocsin.identity.user_store import UserStore
from tocsin.wire.reports import LoadReport, MigrationOrder, Registered, Registration, ReportReply

GATE = PartGate("coordinator", PartKey(b"c" * 32, "/coordinator"), "")

kinds = (f"migrating{n}" for n in itertools.count(1))


class Coordinator:
    """Accepts reports, and sends the orders of the test in its next answer."""

    def __init__(self) -> None:
        self.subscribers: dict[str, list[int]] = {}
        self.rates: dict[int, float] = {}
        self.orders: list[MigrationOrder] = []
        self.drop: list[str] = []
        self.changed = threading.Condition()

    def report(self, report: LoadReport) -> ReportReply:
        with self.changed:
            if report.full:
                self.subscribers.clear()
            self.subscribers |= report.subscribers
            self.rates |= report.rates
            for name in report.left:
                self.subscribers.pop(name, None)
            reply = ReportReply(report.number, False, self.orders, self.drop)
            self.orders, self.drop = [], []
            self.changed.notify_all()
            return reply

    def until(self, subscriber: str, subscriptions: list[int] | None) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.subscribers.get(subscriber) == subscriptions, 120)

    def order(self, user: str) -> None:
        """Returns when the broker has received the order."""
        with self.changed:
            self.orders.append(MigrationOrder(user, "c", "http://c", "ticket"))
            for _ in range(2):  # the report whose answer contains the order, and the next one
                assert self.changed.wait(120)


@contextmanager
def serve(coordinator: Coordinator, home: Path) -> Iterator[str]:
    store = UserStore("", home / "users.db", IdentityConfig(), time.time)
    service = IdentityService(store)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path.endswith("/report"):
                answer: object = coordinator.report(msgspec.json.decode(body, type=LoadReport))
            elif self.path.endswith("/users"):
                answer = asyncio.run(service.exchange("migrating", msgspec.json.decode(body, type=it.Exchange)))
            elif self.path.endswith("/identity"):
                passed_on = msgspec.json.decode(body, type=it.PassedOn)
                answer = asyncio.run(service.call(passed_on.call, passed_on.address))
            else:
                asked = msgspec.json.decode(body, type=Registration)
                joined = GATE.admit(asked.broker, asked.url, asked.join, "")
                answer = Registered("migrating", "00", "token", 0.02, joined)
            data = msgspec.json.encode(answer)
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
    service.close()
    store.close()


@pytest.fixture(scope="module")
def network(data: tuple[Sparkless, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    coordinator = Coordinator()
    home: Path = tmp_path_factory.mktemp("migrating")
    with serve(coordinator, home) as url, broker(home, data[1], "migrating", "--coordinator", url) as found:
        with coordinator.changed:
            assert coordinator.changed.wait(120)  # the broker is registered
        yield coordinator, found


MIGRATE = {"type": "migrate", "broker": "c", "url": "http://c", "ticket": "ticket"}


def test_a_user_over_rest_counts_in_the_load_until_it_logs_out(network):
    coordinator, served = network
    user = RestUser(served.url)
    subscription = user.subscribe(next(kinds))
    coordinator.until(f"{user.name}/phone", [subscription])
    assert subscription in coordinator.rates
    (load,) = [each for each in user.http.get("/load").json()["subscriptions"] if each["subscription"] == subscription]
    assert load["subscribers"] == 1
    user.post("/logout")
    coordinator.until(f"{user.name}/phone", None)


def test_the_next_poll_is_answered_with_results_and_the_migration(cluster, network):
    coordinator, served = network
    user, kind = RestUser(served.url), next(kinds)
    subscription = user.subscribe(kind)
    coordinator.until(f"{user.name}/phone", [subscription])
    cluster.found("OfKind", ([kind], [{"n": 1}]))
    found = user.results(subscription, wait=100)
    assert rows(found) == [1] and "migrate" not in found
    coordinator.order(f"{user.name}/phone")
    found = user.results(subscription)
    assert rows(found) == [1] and found["migrate"] == MIGRATE


def test_a_long_poll_ends_with_the_migration(network):
    coordinator, served = network
    user = RestUser(served.url)
    subscription = user.subscribe(next(kinds))
    coordinator.until(f"{user.name}/phone", [subscription])
    found: list[dict[str, object]] = []
    polling = threading.Thread(target=lambda: found.append(user.results(subscription, wait=25)))
    polling.start()
    coordinator.order(f"{user.name}/phone")
    polling.join()
    assert found[0]["migrate"] == MIGRATE and found[0]["results"] == []


def test_a_stream_receives_the_migration_and_ends_when_the_user_has_migrated(network):
    coordinator, served = network
    user = RestUser(served.url)
    subscription = user.subscribe(next(kinds))
    coordinator.until(f"{user.name}/phone", [subscription])
    with user.http.stream("GET", "/events") as stream:
        coordinator.order(f"{user.name}/phone")
        found = events(stream)
        assert next(data for _, event, data in found if event == "migrate") == MIGRATE
        with coordinator.changed:
            coordinator.drop.append(f"{user.name}/phone")
        assert list(found) == []
    coordinator.until(f"{user.name}/phone", None)
