"""The upstream protocol: what the broker reads first, what waits for it, and what a refusal means."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.upstream import protocol
from tocsin.broker.upstream.http_client import UpstreamClient
from tocsin.config import BrokerConfig
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import PartGate, PartKey, Peer
from tocsin.wire.join import Join
from tocsin.wire.position import Position


def at(execution: int, epoch: int = 0) -> Position:
    return Position(epoch, execution)


CHANNELS = {"channels": [{"name": "C", "last_execution": 9}]}


@contextmanager
def results(rig: Rig) -> Iterator[str]:
    """Serves pulls and fetches; yields the server's address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = rig.answers[f"GET {self.path.partition('?')[0]}"]
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Rig:
    """An upstream client with a data cluster that gives the test's answers; the state machine is a list of events."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.answers: dict[str, Any] = {
            "PUT /brokers/b": {"returned": False},
            "GET /feeds": {"feeds": []},
            "GET /channels": CHANNELS,
            "GET /channels/C/subscriptions": {"subscriptions": [{"subscription": 7, "args": ["fire"]}]},
        }
        self.requests: list[str] = []
        self.changed = asyncio.Event()
        self.held = ExitStack()
        driver: Any = SimpleNamespace(
            config=BrokerConfig(name="b", anonymous="all", cluster=self.held.enter_context(results(self))),
            loop=asyncio.get_running_loop(),
            state=SimpleNamespace(be_subscriptions=SimpleNamespace(channels={})),
            handle=self.handle,
        )
        self.peer = Peer("data cluster", PartKey(b"k" * 32, "b"), "the secret")
        self.gate = PartGate("data cluster", PartKey(b"c" * 32, "data cluster"), "the secret")
        self.upstream = UpstreamClient(driver, "http://broker/notify", self.peer, Tls())
        self.upstream._client = httpx.AsyncClient(
            transport=httpx.MockTransport(self.answer), base_url="http://cluster", timeout=60
        )

    async def answer(self, request: httpx.Request) -> httpx.Response:
        what = f"{request.method} {request.url.path}"
        self.requests.append(what)
        self.changed.set()
        answer = self.answers[what]
        if isinstance(answer, asyncio.Future):
            answer = await answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        if request.method == "PUT" and status == 200:
            given = json.loads(request.content)
            joined = self.gate.admit("b", given["url"], msgspec.convert(given["join"], Join), "")
            body = {"joined": msgspec.to_builtins(joined)} | body
        return httpx.Response(status, content=body if isinstance(body, bytes) else json.dumps(body))

    def later(self, what: str) -> asyncio.Future[Any]:
        """The answer to this request waits until the test sets it."""
        self.answers[what] = asyncio.get_running_loop().create_future()
        return self.answers[what]

    async def until(self, true: Callable[[], bool]) -> None:
        """Checks again after every request and every event."""
        async with asyncio.timeout(120):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    def handle(self, event: Any) -> None:
        self.events.append(event)
        self.changed.set()


def run(test: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = Rig()
        try:
            await test(rig)
        finally:
            await rig.upstream.stop()
            rig.held.close()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "POLL", 0.0)


def refusal(kind: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    return 404, {"error": {"code": "not_found", "message": "no", "kind": kind, **fields}}


def test_subscriptions_are_recovered_before_the_first_notification():
    async def test(rig: Rig) -> None:
        listing = rig.later("GET /channels/C/subscriptions")
        rig.upstream.start()
        await rig.until(lambda: "GET /channels/C/subscriptions" in rig.requests)
        assert not rig.upstream.settled.is_set()
        listing.set_result({"subscriptions": [{"subscription": 7, "args": ["fire"]}]})
        await rig.upstream.settled.wait()
        assert rig.events == [ev.Recovered("C", [(7, ["fire"])], at(9))]

    run(test)


def test_lost_notifications_are_known_before_the_next_notification():
    async def test(rig: Rig) -> None:
        rig.upstream.start()
        await rig.upstream.registered.wait()
        registering = rig.later("PUT /brokers/b")
        await rig.until(lambda: not rig.upstream.settled.is_set())
        registering.set_result({"returned": True})
        listing = rig.later("GET /channels")
        rig.answers["PUT /brokers/b"] = {"returned": False}
        await rig.until(lambda: rig.requests[-1] == "GET /channels")
        assert not rig.upstream.settled.is_set()
        listing.set_result(CHANNELS)
        await rig.upstream.settled.wait()
        assert rig.events[-1] == ev.Missed({"C": at(9)})

    run(test)


def test_a_broker_that_was_declared_dead_catches_up_at_its_first_registration():
    """A client may have subscribed before the broker was registered."""

    async def test(rig: Rig) -> None:
        rig.answers["PUT /brokers/b"] = {"returned": True}
        rig.upstream.start()
        await rig.upstream.settled.wait()
        assert rig.events == [ev.Recovered("C", [(7, ["fire"])], at(9)), ev.Missed({"C": at(9)})]

    run(test)


def test_a_broker_catches_up_after_a_registration_without_an_answer():
    async def test(rig: Rig) -> None:
        rig.upstream.start()
        await rig.upstream.registered.wait()
        rig.answers["PUT /brokers/b"] = (503, {"error": {"message": "the answer was lost"}})
        await rig.until(lambda: rig.upstream.last_error is not None)
        rig.answers["PUT /brokers/b"] = {"returned": False}
        await rig.until(lambda: ev.Missed({"C": at(9)}) in rig.events)

    run(test)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (do.Subscribe("C", [["fire"], ["flood"]]), "there is no channel 'C'"),
        (do.Subscribe("feed:Alarms", [["TRUE"], []]), "there is no feed 'Alarms'"),
    ],
    ids=["channel", "feed"],
)
def test_without_a_data_cluster_subscriptions_to_what_is_not_known_are_refused(command, says):
    async def test(rig: Rig) -> None:
        rig.upstream.alone()
        rig.upstream.carry_out(command)
        await rig.until(lambda: len(rig.events) == 2)
        subscribed = rig.events[1]
        assert (subscribed.channel, subscribed.position.epoch) == (command.channel, 0)
        assert [(each.code, each.message) for each in subscribed.outcomes] == [("not_found", says)] * 2
        assert "no data cluster" in subscribed.outcomes[0].hint
        assert rig.requests == [] and rig.upstream.last_error is None

    run(test)


def test_without_a_data_cluster_every_other_command_ends_too():
    async def test(rig: Rig) -> None:
        rig.upstream.alone()
        for command in (
            do.Publish("Alarms", [msgspec.Raw(b"{}")]),
            do.Unsubscribe("C", [7]),
            do.Pull("C", at(1)),
            do.Fetch(5, "C", 7, at(1), find_begin=True),
        ):
            rig.upstream.carry_out(command)
        await rig.until(lambda: len(rig.events) == 7)
        failed, *others = sorted(rig.events[1:], key=lambda event: not isinstance(event, ev.PublishFailed))
        assert (failed.feed, failed.problem.code) == ("Alarms", "not_found")
        assert {type(event) for event in others} == {ev.Unsubscribed, ev.Dropped, ev.Pulled, ev.Fetched}
        assert await rig.upstream.channels() == []
        assert rig.requests == []

    run(test)


def test_nothing_is_unsubscribed_before_subscriptions_are_recovered():
    async def test(rig: Rig) -> None:
        listing = rig.later("GET /channels")
        rig.answers["POST /channels/C/unsubscribe"] = {}
        rig.upstream.start()
        rig.upstream.carry_out(do.Unsubscribe("C", [7]))
        await rig.until(lambda: "GET /channels" in rig.requests)
        assert "POST /channels/C/unsubscribe" not in rig.requests
        listing.set_result(CHANNELS)
        await rig.until(lambda: ev.Unsubscribed("C") in rig.events)

    run(test)


@pytest.mark.parametrize(
    ("kind", "lost"),
    [("execution", ev.Missed({"C": at(4, 3)})), ("channel", ev.Dropped("C", 3))],
    ids=["expired", "dropped"],
)
def test_a_refused_pull_reports_the_loss_and_ends(kind, lost):
    async def test(rig: Rig) -> None:
        rig.answers["GET /channels/C/executions/4/results"] = refusal(kind, first=5)
        rig.upstream.carry_out(do.Pull("C", at(4, 3)))
        await rig.until(lambda: len(rig.events) == 2)
        assert rig.events == [lost, ev.Pulled("C", at(4, 3), [])]

    run(test)


def test_a_fetch_of_expired_results_is_a_gap():
    async def test(rig: Rig) -> None:
        rig.answers["GET /channels/C/subscriptions/7/results"] = refusal("execution", first=5)
        rig.upstream.carry_out(do.Fetch(3, "C", 7, at(1)))
        await rig.until(lambda: bool(rig.events))
        assert rig.events == [ev.FetchGap(3, at(5))]

    run(test)


@pytest.mark.parametrize(
    ("about", "event"),
    [
        ({"subscription": 7, "begins_after": 4}, ev.Fetched(3, [], False, at(4))),
        ({"subscription": 7, "begins_after": None}, ev.FetchEarly(3)),
        (refusal("subscription"), ev.Fetched(3, [])),
    ],
)
def test_the_begin_of_a_subscription_is_requested_first(about, event):
    async def test(rig: Rig) -> None:
        rig.answers["GET /channels/C/subscriptions/7"] = about
        rig.answers["GET /channels/C/subscriptions/7/results"] = b""
        rig.upstream.carry_out(do.Fetch(3, "C", 7, at(1), find_begin=True))
        await rig.until(lambda: bool(rig.events))
        assert rig.events == [event]

    run(test)


def test_an_invalid_subscription_does_not_affect_the_others_of_its_batch():
    async def test(rig: Rig) -> None:
        async def subscribe(request: httpx.Request) -> httpx.Response:
            args = json.loads(request.content)["subscriptions"]
            if ["wrong"] in args:
                return httpx.Response(400, json={"error": {"code": "type_mismatch", "message": "no"}})
            return httpx.Response(200, json={"subscriptions": [int(each[0]) for each in args], "position": 4})

        rig.upstream._client = httpx.AsyncClient(
            transport=httpx.MockTransport(subscribe), base_url="http://cluster", timeout=60
        )
        rig.upstream.carry_out(do.Subscribe("C", [["1"], ["wrong"], ["3"], ["4"]]))
        await rig.until(lambda: bool(rig.events))
        assert rig.events == [ev.Subscribed("C", [1, ev.Problem("type_mismatch", "no"), 3, 4], at(4))]

    run(test)


def test_pulled_results_arrive_line_by_line():
    lines = b"".join(b'{"subscription":%d,"execution":4,"count":1,"results":[{"n": 1}]}\n' % n for n in (7, 8))

    async def test(rig: Rig) -> None:
        rig.answers["GET /channels/C/executions/4/results"] = lines
        rig.upstream.carry_out(do.Pull("C", at(4, 3)))
        await rig.until(lambda: len(rig.events) == 2)
        first, last = rig.events
        assert [(each.subscription, bytes(each.results)) for each in first.lines] == [
            (7, b'[{"n": 1}]'),
            (8, b'[{"n": 1}]'),
        ]
        assert last == ev.Pulled("C", at(4, 3), [])

    run(test)


def test_a_channel_recreated_between_two_polls_was_dropped():
    async def test(rig: Rig) -> None:
        rig.answers["GET /channels"] = {"channels": [{"name": "C", "last_execution": 9, "epoch": 200}]}
        channels = rig.upstream.driver.state.be_subscriptions.channels
        channels["c"] = SimpleNamespace(epoch=100, be_subscriptions={7: None})
        rig.upstream.start()
        await rig.until(lambda: ev.Dropped("c", 100) in rig.events)

    run(test)


def test_a_large_fetch_is_cut_into_pages():
    line = b'{"subscription":7,"execution":%d,"count":1,"results":["' + b"x" * 100_000 + b'"]}\n'

    async def test(rig: Rig) -> None:
        rig.answers["GET /channels/C/subscriptions/7/results"] = b"".join(line % n for n in range(2, 40))
        rig.upstream.carry_out(do.Fetch(3, "C", 7, at(1)))
        await rig.until(lambda: bool(rig.events))
        (fetched,) = rig.events
        assert fetched.more and 10 <= len(fetched.lines) < 38
        assert [each.execution for each in fetched.lines] == list(range(2, 2 + len(fetched.lines)))

    run(test)
