"""The inner port accepts notifications in any fragmentation, and answers unusual requests too."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from broker_lab import Broker, Speaker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seeds import examples
from sparkless import Sparkless
from tocsin.broker.transport import notify_endpoint
from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.notify_endpoint import (
    TOGETHER,
    UNANSWERED,
    NotificationReceiver,
    NotifyEndpoint,
    plain_head,
)
from tocsin.config import BrokerConfig
from tocsin.http.access import Access
from tocsin.identity.part_keys import PartKey, Peer

LATER = {"tocsin-answer": "later"}
TOKEN = {"tocsin-part": ""}
#: After the data cluster's position of a channel that has no executions.
executions = itertools.count(1_000)


@pytest.fixture(autouse=True)
def signed(cluster: Sparkless, served_broker: Broker) -> None:
    """Requests come from the data cluster unless a test says otherwise."""
    TOKEN["tocsin-part"] = cluster.token_for("shared")


@pytest.fixture
def notifier(served_broker: Broker) -> Iterator[Notifier]:
    with Notifier(served_broker) as found:
        yield found


@pytest.fixture
def subscriber(served_broker: Broker) -> Iterator[Speaker]:
    found = Speaker(served_broker.url)
    yield found
    found.close()


class Notifier:
    """A connection to the inner port, byte by byte."""

    def __init__(self, broker: Broker) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(broker.facts["inside"].rpartition(":")[2])), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Notifier:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def ended(self) -> bool:
        """The broker has closed the connection without another answer."""
        try:
            return self.file.read() == b""
        except ConnectionResetError:  # the broker left some requests unread
            return True

    def answers(self, count: int = 1) -> list[tuple[int, bytes]]:
        found = []
        for _ in range(count):
            status = int(self.file.readline().split()[1])
            fields = http.client.parse_headers(self.file)
            found.append((status, self.file.read(int(fields.get("content-length", "0")))))
        return found


def request(body: bytes, *, first: str = "POST /notify HTTP/1.1", size: int | None = None, **headers: str) -> bytes:
    fields = {"host": "localhost", **TOKEN, "content-length": str(len(body) if size is None else size)} | headers
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items() if value)
    return f"{first}\r\n{head}\r\n".encode() + body


def notification(subscription: int, n: int, broker: str = "shared") -> dict[str, Any]:
    execution = next(executions)
    line = {"subscription": subscription, "execution": execution, "count": 1, "results": [{"n": n}]}
    return {"broker": broker, "channel": "PushedAbove", "execution": execution, "results": [line]}


least = itertools.count(10_000)


def subscribed(subscriber: Speaker) -> int:
    return int(subscriber.ask("subscribe", channel="PushedAbove", args=[next(least)])["subscription"])


def test_a_notification_is_delivered_before_it_is_answered(notifier, subscriber):
    id_ = subscribed(subscriber)
    notifier.socket.sendall(request(json.dumps(notification(id_, 1)).encode()))
    assert notifier.answers() == [(204, b"")]
    assert subscriber.next("notify")["results"] == [{"n": 1}]


def test_one_request_carries_several_notifications(notifier, subscriber):
    id_ = subscribed(subscriber)
    notifier.socket.sendall(request(json.dumps([notification(id_, n) for n in range(3)]).encode()))
    assert [subscriber.next("notify")["results"] for _ in range(3)] == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]
    assert notifier.answers() == [(204, b"")]


def test_requests_may_arrive_in_any_fragments(notifier, subscriber):
    id_ = subscribed(subscriber)
    data = b"".join(request(json.dumps(notification(id_, n)).encode()) for n in range(3))
    for at in range(0, len(data), 7):
        notifier.socket.sendall(data[at : at + 7])
    assert notifier.answers(3) == [(204, b"")] * 3
    assert [subscriber.next("notify")["results"][0]["n"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "headers",
    [{"transfer_encoding": "chunked", "content_length": ""}, {"expect": "100-continue"}, {"connection": "close"}],
    ids=["chunked", "expect", "close"],
)
def test_an_unusual_request_is_accepted_too(notifier, subscriber, headers):
    id_ = subscribed(subscriber)
    body = json.dumps(notification(id_, 1)).encode()
    if "transfer_encoding" in headers:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    notifier.socket.sendall(request(body, **fields))
    while (answer := notifier.answers()[0]) == (100, b""):
        pass
    assert answer == (204, b"")
    assert subscriber.next("notify")["results"] == [{"n": 1}]


BAD = {
    "not JSON": (b"{", 400, "malformed"),
    "nothing": (b"", 400, "malformed"),
    "no execution": (b'{"broker":"shared","channel":"C"}', 400, "malformed"),
    "invalid results": (b'{"broker":"shared","channel":"C","execution":1,"results":[7]}', 400, "malformed"),
    "for another broker": (b'{"broker":"other","channel":"C","execution":1}', 409, "conflict"),
}


@pytest.mark.parametrize(("body", "status", "code"), BAD.values(), ids=BAD)
def test_an_invalid_notification_is_refused_and_closes_the_connection(notifier, body, status, code):
    notifier.socket.sendall(request(body))
    [(found, text)] = notifier.answers()
    assert (found, json.loads(text)["error"]["code"]) == (status, code)
    assert notifier.ended()


def test_requests_after_a_refused_one_are_ignored(notifier, subscriber, served_broker):
    id_ = subscribed(subscriber)
    before, bad, after = notification(id_, 1), notification(id_, 2, broker="other"), notification(id_, 3)
    notifier.socket.sendall(b"".join(request(json.dumps(each).encode(), **LATER) for each in (before, bad, after)))
    assert [status for status, _ in notifier.answers(2)] == [204, 409]
    assert notifier.ended()
    with Notifier(served_broker) as again:
        again.socket.sendall(
            b"".join(request(json.dumps(each | {"broker": "shared"}).encode()) for each in (bad, after))
        )
        assert again.answers(2) == [(204, b"")] * 2
    assert [subscriber.next("notify")["results"][0]["n"] for _ in range(3)] == [1, 2, 3]


# -- deferred answers


def test_an_immediate_answer_contains_the_limit_of_unanswered_requests(notifier):
    notifier.socket.sendall(request(b"[]"))
    assert notifier.file.readline() == b"HTTP/1.1 204 No Content\r\n"
    assert http.client.parse_headers(notifier.file)["tocsin-unanswered"] == str(UNANSWERED)


def test_a_request_with_a_deferred_answer_is_delivered_at_once(notifier, subscriber):
    id_ = subscribed(subscriber)
    for n in range(3):
        notifier.socket.sendall(request(json.dumps(notification(id_, n)).encode(), **LATER))
        assert subscriber.next("notify")["results"] == [{"n": n}]
    assert notifier.answers(3) == [(204, b"")] * 3


@pytest.mark.parametrize("count", [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, UNANSWERED, 3 * UNANSWERED])
def test_each_request_of_a_batch_is_answered_once(notifier, count):
    notifier.socket.sendall(request(b"[]", **LATER) * count + request(b"{", **LATER))
    assert [status for status, _ in notifier.answers(count + 1)] == [204] * count + [400]
    assert notifier.ended()


def test_an_immediate_answer_flushes_the_deferred_ones(notifier):
    notifier.socket.sendall(request(b"[]", **LATER) * 3 + request(b"[]"))
    assert notifier.answers(4) == [(204, b"")] * 4


def test_deferred_answers_are_sent_before_the_web_server_takes_over(notifier):
    notifier.socket.sendall(request(b"[]", **LATER) * 3 + request(b"", first="GET /healthz HTTP/1.1"))
    assert [status for status, _ in notifier.answers(4)] == [204, 204, 204, 200]


PARTS = {
    "now": (lambda: request(b"[]"), 204),
    "later": (lambda: request(b"[]", **LATER), 204),
    "cased": (lambda: request(b"[]").replace(b"content-length", b"Content-Length"), 204),
    "bad": (lambda: request(b"[7]", **LATER), 400),
    "other": (lambda: request(b"{}"), 400),
}


@given(data=st.data(), names=st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=40))
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_requests_in_any_fragments_are_answered_up_to_the_first_refusal(served_broker, data, names):
    sent = b"".join(PARTS[name][0]() for name in names)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    expected = [PARTS[name][1] for name in names]
    if 400 in expected:
        expected = expected[: expected.index(400) + 1]
    with Notifier(served_broker) as notifier:
        with suppress(ConnectionError):  # the broker may have refused and closed before the rest was sent
            for begin, end in itertools.pairwise([0, *cuts, len(sent)]):
                notifier.socket.sendall(sent[begin:end])
        assert [status for status, _ in notifier.answers(len(expected))] == expected


@given(st.binary(max_size=200), st.booleans())
@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_bytes_do_not_affect_another_connection(served_broker, sent, begun):
    with Notifier(served_broker) as odd, Notifier(served_broker) as usual:
        odd.socket.sendall((b"POST /notify HTTP/1.1\r\n" if begun else b"") + sent)
        usual.socket.sendall(request(b"[]"))
        assert usual.answers() == [(204, b"")]


OTHER = {
    "another method": (lambda: request(b"", first="GET /notify HTTP/1.1"), 405),
    "another path": (lambda: request(b"", first="GET /healthz HTTP/1.1"), 200),
    "no such path": (lambda: request(b"", first="GET /nowhere HTTP/1.1"), 404),
    "an invalid length": (lambda: request(b"", content_length="x"), 400),
    "too large": (lambda: request(b"", size=1 << 40), 413),
    "not HTTP": (lambda: b"hello?\r\n\r\n", 400),
}


@pytest.mark.parametrize(("sent", "status"), OTHER.values(), ids=OTHER)
def test_the_web_server_answers_all_other_requests(notifier, sent, status):
    notifier.socket.sendall(sent().replace(b"content_length", b"content-length"))
    assert notifier.answers()[0][0] == status


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"POST /notify HTTP/1.1\r\nContent-Length: 12\r\n\r\n", (12, False)),
        (b"POST /notify HTTP/1.1\r\nHost: x\r\ncontent-length:0\r\nConnection: keep-alive\r\n\r\n", (0, False)),
        (b"POST /notify HTTP/1.1\r\nTocsin-Answer: later\r\nContent-Length: 2\r\n\r\n", (2, True)),
        (b"POST /notify HTTP/1.1\r\nTocsin-Answer: never\r\nContent-Length: 2\r\n\r\n", (2, False)),
        (b"POST /notify HTTP/1.1\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: -1\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        (b"POST /notify HTTP/1.0\r\nContent-Length: 1\r\n\r\n", None),
        (b"POST /notify?x HTTP/1.1\r\nContent-Length: 1\r\n\r\n", None),
    ],
)
def test_only_a_request_with_a_plain_content_length_bypasses_the_web_server(head, found):
    read = plain_head(head)
    assert (read and read[:2]) == found


class HandedOver(asyncio.Protocol):
    """In place of the web server, which refuses what no token has signed."""

    def connection_made(self, transport: Any) -> None:
        transport.close()


@pytest.mark.parametrize(("lifetime", "statuses"), [(0.0, [204, 0]), (3_600.0, [204, 204, 204, 0])])
def test_a_connection_is_trusted_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, lifetime: float, statuses: list[int]
) -> None:
    """In this process, where the time is over at once."""
    monkeypatch.setattr(notify_endpoint, "LIFETIME", lifetime)
    sender = PartKey(b"1" * 32, "/data-cluster")
    peer = Peer("data cluster", PartKey(b"2" * 32, "b"), "")
    peer.key = sender.public
    body = b"[]"

    async def answers() -> list[int]:
        loop, settled = asyncio.get_running_loop(), asyncio.Event()
        settled.set()
        receiver = NotificationReceiver(Driver(BrokerConfig(name="b"), loop), settled, peer)
        sock = socket.create_server(("127.0.0.1", 0))
        access = Access(sock)
        async with await loop.create_server(lambda: NotifyEndpoint(receiver, HandedOver, access), sock=sock):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            found = []
            for token in (sender.token(peer.own.public), "", "", "made-up")[: len(statuses)]:
                writer.write(request(body, **{"tocsin-part": token}))
                try:
                    found.append(int((await reader.readuntil(b"\r\n\r\n")).split()[1]))
                except asyncio.IncompleteReadError:  # the web server has it
                    found.append(0)
            writer.close()
        return found

    assert asyncio.run(answers()) == statuses
