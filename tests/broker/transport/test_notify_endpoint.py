"""The inner port: what is told is heard in whatever pieces it comes, and what is unusual is answered all the same."""

from __future__ import annotations

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

from tocsin.broker.transport.notify_endpoint import TOGETHER, UNANSWERED, Head, plain_head

LATER = {"tocsin-answer": "later"}
#: Beyond what the data cluster says of a channel nobody executes.
executions = itertools.count(1_000)


@pytest.fixture
def teller(served_broker: Broker) -> Iterator[Teller]:
    with Teller(served_broker) as found:
        yield found


@pytest.fixture
def subscriber(served_broker: Broker) -> Iterator[Speaker]:
    found = Speaker(served_broker.url)
    yield found
    found.close()


class Teller:
    """A connection to the inner port, byte by byte."""

    def __init__(self, broker: Broker) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(broker.facts["inside"].rpartition(":")[2])), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Teller:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def ended(self) -> bool:
        """The broker has ended it, and has said nothing more."""
        try:
            return self.file.read() == b""
        except ConnectionResetError:  # it has left some of what was said unread
            return True

    def answers(self, count: int = 1) -> list[tuple[int, bytes]]:
        found = []
        for _ in range(count):
            status = int(self.file.readline().split()[1])
            fields = http.client.parse_headers(self.file)
            found.append((status, self.file.read(int(fields.get("content-length", "0")))))
        return found


def request(body: bytes, *, first: str = "POST /notify HTTP/1.1", size: int | None = None, **headers: str) -> bytes:
    fields = {"host": "b", "content-length": str(len(body) if size is None else size)} | headers
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items() if value)
    return f"{first}\r\n{head}\r\n".encode() + body


def tell(subscription: int, n: int, broker: str = "shared") -> dict[str, Any]:
    execution = next(executions)
    line = {"subscription": subscription, "execution": execution, "count": 1, "results": [{"n": n}]}
    return {"broker": broker, "channel": "PushedAbove", "execution": execution, "results": [line]}


least = itertools.count(10_000)


def subscribed(subscriber: Speaker) -> int:
    return int(subscriber.ask("subscribe", channel="PushedAbove", args=[next(least)])["subscription"])


def test_what_is_told_is_delivered_before_it_is_answered(teller, subscriber):
    number = subscribed(subscriber)
    teller.socket.sendall(request(json.dumps(tell(number, 1)).encode()))
    assert teller.answers() == [(204, b"")]
    assert subscriber.next("notify")["results"] == [{"n": 1}]


def test_several_are_told_at_once(teller, subscriber):
    number = subscribed(subscriber)
    teller.socket.sendall(request(json.dumps([tell(number, n) for n in range(3)]).encode()))
    assert [subscriber.next("notify")["results"] for _ in range(3)] == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]
    assert teller.answers() == [(204, b"")]


def test_requests_may_come_in_any_pieces(teller, subscriber):
    number = subscribed(subscriber)
    data = b"".join(request(json.dumps(tell(number, n)).encode()) for n in range(3))
    for at in range(0, len(data), 7):
        teller.socket.sendall(data[at : at + 7])
    assert teller.answers(3) == [(204, b"")] * 3
    assert [subscriber.next("notify")["results"][0]["n"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "headers",
    [{"transfer_encoding": "chunked", "content_length": ""}, {"expect": "100-continue"}, {"connection": "close"}],
    ids=["chunked", "expect", "close"],
)
def test_a_request_of_an_unusual_kind_is_heard_too(teller, subscriber, headers):
    number = subscribed(subscriber)
    body = json.dumps(tell(number, 1)).encode()
    if "transfer_encoding" in headers:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    teller.socket.sendall(request(body, **fields))
    while (answer := teller.answers()[0]) == (100, b""):
        pass
    assert answer == (204, b"")
    assert subscriber.next("notify")["results"] == [{"n": 1}]


BAD = {
    "no JSON": (b"{", 400, "malformed"),
    "nothing": (b"", 400, "malformed"),
    "no execution": (b'{"broker":"shared","channel":"C"}', 400, "malformed"),
    "results that are none": (b'{"broker":"shared","channel":"C","execution":1,"results":[7]}', 400, "malformed"),
    "for another broker": (b'{"broker":"other","channel":"C","execution":1}', 409, "conflict"),
}


@pytest.mark.parametrize(("body", "status", "code"), BAD.values(), ids=BAD)
def test_what_cannot_be_heard_is_refused_and_ends_the_connection(teller, body, status, code):
    teller.socket.sendall(request(body))
    [(found, text)] = teller.answers()
    assert (found, json.loads(text)["error"]["code"]) == (status, code)
    assert teller.ended()


def test_nothing_behind_what_is_refused_is_heard(teller, subscriber, served_broker):
    number = subscribed(subscriber)
    before, bad, behind = tell(number, 1), tell(number, 2, broker="other"), tell(number, 3)
    teller.socket.sendall(b"".join(request(json.dumps(each).encode(), **LATER) for each in (before, bad, behind)))
    assert [status for status, _ in teller.answers(2)] == [204, 409]
    assert teller.ended()
    with Teller(served_broker) as again:
        again.socket.sendall(
            b"".join(request(json.dumps(each | {"broker": "shared"}).encode()) for each in (bad, behind))
        )
        assert again.answers(2) == [(204, b"")] * 2
    assert [subscriber.next("notify")["results"][0]["n"] for _ in range(3)] == [1, 2, 3]


# -- answers that may come later


def test_an_answer_at_once_says_how_many_may_be_unanswered(teller):
    teller.socket.sendall(request(b"[]"))
    assert teller.file.readline() == b"HTTP/1.1 204 No Content\r\n"
    assert http.client.parse_headers(teller.file)["tocsin-unanswered"] == str(UNANSWERED)


def test_what_may_be_answered_later_is_heard_at_once_and_answered_in_the_end(teller, subscriber):
    number = subscribed(subscriber)
    for n in range(3):
        teller.socket.sendall(request(json.dumps(tell(number, n)).encode(), **LATER))
        assert subscriber.next("notify")["results"] == [{"n": n}]
    assert teller.answers(3) == [(204, b"")] * 3


@pytest.mark.parametrize("count", [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, UNANSWERED, 3 * UNANSWERED])
def test_each_is_answered_once_however_many_come_together(teller, count):
    teller.socket.sendall(request(b"[]", **LATER) * count + request(b"{", **LATER))
    assert [status for status, _ in teller.answers(count + 1)] == [204] * count + [400]
    assert teller.ended()


def test_one_that_asks_for_its_answer_gets_those_owed_before_it(teller):
    teller.socket.sendall(request(b"[]", **LATER) * 3 + request(b"[]"))
    assert teller.answers(4) == [(204, b"")] * 4


def test_what_is_owed_is_answered_before_the_web_server_takes_over(teller):
    teller.socket.sendall(request(b"[]", **LATER) * 3 + request(b"", first="GET /healthz HTTP/1.1"))
    assert [status for status, _ in teller.answers(4)] == [204, 204, 204, 200]


PARTS = {
    "now": (request(b"[]"), 204),
    "later": (request(b"[]", **LATER), 204),
    "cased": (request(b"[]").replace(b"content-length", b"Content-Length"), 204),
    "bad": (request(b"[7]", **LATER), 400),
    "other": (request(b"{}"), 400),
}


@given(data=st.data(), names=st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=40))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_whatever_comes_in_whatever_pieces_is_answered_up_to_the_first_refusal(served_broker, data, names):
    said = b"".join(PARTS[name][0] for name in names)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=8)))
    expected = [PARTS[name][1] for name in names]
    if 400 in expected:
        expected = expected[: expected.index(400) + 1]
    with Teller(served_broker) as teller:
        with suppress(ConnectionError):  # it may have refused and ended before the rest was said
            for begin, end in itertools.pairwise([0, *cuts, len(said)]):
                teller.socket.sendall(said[begin:end])
        assert [status for status, _ in teller.answers(len(expected))] == expected


@given(st.binary(max_size=200), st.booleans())
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_no_bytes_disturb_anybody_else(served_broker, said, begun):
    with Teller(served_broker) as odd, Teller(served_broker) as usual:
        odd.socket.sendall((b"POST /notify HTTP/1.1\r\n" if begun else b"") + said)
        usual.socket.sendall(request(b"[]"))
        assert usual.answers() == [(204, b"")]


OTHER = {
    "another method": (request(b"", first="GET /notify HTTP/1.1"), 405),
    "another path": (request(b"", first="GET /healthz HTTP/1.1"), 200),
    "no such path": (request(b"", first="GET /nowhere HTTP/1.1"), 404),
    "a length that is none": (request(b"", content_length="x"), 400),
    "too large": (request(b"", size=1 << 40), 413),
    "no HTTP": (b"hello?\r\n\r\n", 400),
}


@pytest.mark.parametrize(("said", "status"), OTHER.values(), ids=OTHER)
def test_everything_else_is_answered_by_the_web_server(teller, said, status):
    teller.socket.sendall(said.replace(b"content_length", b"content-length"))
    assert teller.answers()[0][0] == status


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"POST /notify HTTP/1.1\r\nContent-Length: 12\r\n\r\n", Head(12, False)),
        (b"POST /notify HTTP/1.1\r\nHost: x\r\ncontent-length:0\r\nConnection: keep-alive\r\n\r\n", Head(0, False)),
        (b"POST /notify HTTP/1.1\r\nTocsin-Answer: later\r\nContent-Length: 2\r\n\r\n", Head(2, True)),
        (b"POST /notify HTTP/1.1\r\nTocsin-Answer: never\r\nContent-Length: 2\r\n\r\n", Head(2, False)),
        (b"POST /notify HTTP/1.1\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: -1\r\n\r\n", None),
        (b"POST /notify HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        (b"POST /notify HTTP/1.0\r\nContent-Length: 1\r\n\r\n", None),
        (b"POST /notify?x HTTP/1.1\r\nContent-Length: 1\r\n\r\n", None),
    ],
)
def test_only_what_says_its_size_plainly_is_read_without_the_web_server(head, found):
    assert plain_head(head) == found
