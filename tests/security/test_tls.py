"""All parts with TLS: subscribers and parts verify each other, and certificates are renewed while everything runs."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import ExitStack

import httpx
import msgspec
import pytest
from broker_lab import broker
from coordinator_lab import coordinator
from websockets.sync.client import connect as websocket
from websockets.typing import Subprotocol

from certificates import Authority
from served import tocsin
from sparkless import sparkless
from tocsin.client import connect
from tocsin.errors import TocsinError
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.wire import SUBPROTOCOL

SECRET = "the join secret"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def network(authority, tmp_path_factory):
    """A data cluster and a broker that ask each other for client certificates, and a coordinator."""
    folder = tmp_path_factory.mktemp("network")
    mutual = {"tls_client_ca": authority.ca, "join_secret": SECRET}
    with (
        sparkless(folder / "data", **authority.issue("cluster"), **mutual) as (data, url),
        coordinator(folder / "coordinator", join_secret=SECRET, **authority.issue("coordinator")) as center,
        broker(
            folder / "b",
            url,
            "b",
            "--coordinator",
            center.url,
            "--inside-host",
            "127.0.0.1",
            **authority.issue("broker"),
            **mutual,
        ) as found,
    ):
        yield data, url, center, found


def trusted(authority: Authority, part: str = "") -> ssl.SSLContext:
    """With the certificate of a part, or without one."""
    context = ssl.create_default_context(cafile=authority.ca)
    if part:
        context.load_cert_chain(authority.folder / f"{part}.crt", authority.folder / f"{part}.key")
    return context


def serial(context: ssl.SSLContext, url: str) -> int:
    """Of the certificate that the server shows."""
    host, port = url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), 60) as sock,
        context.wrap_socket(sock, server_hostname=host) as tls,
    ):
        return int(tls.getpeercert()["serialNumber"], 16)


def test_all_addresses_are_https(network):
    _, url, center, found = network
    for each in (url, center.url, found.url, found.facts["inside"]):
        assert each.startswith("https://127.0.0.1:")


def test_a_subscriber_over_tls_receives_notifications_of_all_sizes(network, authority):
    data, _, center, _ = network
    rows = [{"n": 8, "text": "x" * 100}]
    large = [{"n": number, "text": "y" * 1_000} for number in range(2_000)]

    async def run() -> list[object]:
        async with connect(coordinator=center.url, tls_ca=authority.ca) as client:
            pushed, pulled = client.subscribe("PushedAbove", least=7), client.subscribe("Above", least=7)
            await pushed.confirmed()
            await pulled.confirmed()
            found = []
            for content in (rows, large, rows):
                data.found("PushedAbove", ([7], content))
                data.found("Above", ([7], content))
                for subscription in (pushed, pulled):
                    async with asyncio.timeout(120):
                        found.append((await anext(subscription)).results)
            return found

    assert asyncio.run(run()) == [rows, rows, large, large, rows, rows]


def test_many_subscribers_over_tls_share_a_notification(network, authority):
    """The frame writer cannot write to their sockets directly."""
    data, _, _, found = network
    context = trusted(authority)
    address = found.url.replace("http", "ws", 1) + "/v1/ws"
    options = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "proxy": None, "ssl": context, "open_timeout": 60}
    with ExitStack() as held:
        sockets = [held.enter_context(websocket(address, **options)) for _ in range(5)]
        for each in sockets:
            subscribe = {"type": "subscribe", "id": 2, "channel": "PushedAbove", "args": [90]}
            each.send(json.dumps([{"type": "hello", "id": 1}, subscribe]))
            until(each, "subscribed")
        for n in (91, 92):
            data.found("PushedAbove", ([90], [{"n": n}]))
            for each in sockets:
                assert until(each, "notify")["results"] == [{"n": n}]


def test_a_subscriber_over_tls_that_does_not_read_delays_no_other_and_loses_nothing(network, authority):
    data, _, _, found = network
    address = found.url.replace("http", "ws", 1) + "/v1/ws"
    options = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "proxy": None, "ssl": trusted(authority), "max_size": None}
    subscribe = {"type": "subscribe", "id": 2, "channel": "PushedAbove", "args": [900]}
    with websocket(address, max_queue=1, **options) as slow, websocket(address, **options) as fast:
        for each in (slow, fast):
            each.send(json.dumps([{"type": "hello", "id": 1}, subscribe]))
            until(each, "subscribed")
        for n in range(40):
            data.found("PushedAbove", ([900], [{"n": n, "text": "x" * 500_000}]))
            assert until(fast, "notify")["results"][0]["n"] == n
        assert [until(slow, "notify")["results"][0]["n"] for _ in range(40)] == list(range(40))


def until(socket, kind):
    """The next message of this type."""
    while True:
        found = json.loads(socket.recv(120))
        for message in found if isinstance(found, list) else [found]:
            if message["type"] == kind:
                return message


def test_rest_and_event_streams_are_served_over_tls(network, authority):
    _, _, _, found = network
    context = trusted(authority)
    assert httpx.get(found.url + "/listchannels", verify=context, timeout=60).status_code == 200
    path = "/events?channel=OfKind&kind=a"
    with httpx.stream("GET", found.url + path, verify=context, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")


def test_no_part_answers_without_tls(network):
    _, url, center, found = network
    for each in (url, center.url, found.url, found.facts["inside"]):
        with pytest.raises(httpx.TransportError):
            httpx.get(each.replace("https", "http", 1) + "/healthz", timeout=60)


def test_a_client_does_not_trust_an_unknown_authority(network, tmp_path):
    *_, found = network
    other = Authority(tmp_path, "other")

    async def run() -> None:
        async with connect(found.url, tls_ca=other.ca):
            pass

    with pytest.raises(TocsinError, match="certificate"):
        asyncio.run(run())


@pytest.mark.parametrize("port", ["data cluster", "inner port"])
def test_the_ports_between_parts_ask_for_a_client_certificate(network, authority, tmp_path, port):
    _, url, _, found = network
    address = {"data cluster": url, "inner port": found.facts["inside"]}[port]
    assert httpx.get(address + "/healthz", verify=trusted(authority, "broker"), timeout=60).status_code == 200
    stranger = Authority(tmp_path, "stranger")
    stranger.issue("stranger")
    context = ssl.create_default_context(cafile=authority.ca)
    context.load_cert_chain(tmp_path / "stranger.crt", tmp_path / "stranger.key")
    for refused in (trusted(authority), context):
        with pytest.raises(httpx.TransportError):
            httpx.get(address + "/healthz", verify=refused, timeout=60)


@pytest.mark.parametrize(("part", "place"), [("cluster", 1), ("coordinator", 2), ("broker", 3)])
def test_a_renewed_certificate_is_used_and_open_connections_stay(network, authority, part, place):
    address = network[place] if part == "cluster" else network[place].url
    context = trusted(authority, "broker")
    before = serial(context, address)
    with httpx.Client(verify=context, timeout=60) as open_one:
        assert open_one.get(address + "/healthz").status_code == 200
        authority.issue(part)
        assert serial(trusted(authority, "broker"), address) > before
        assert open_one.get(address + "/healthz").status_code == 200


def test_a_coordinator_on_tls_never_names_a_broker_without_it(network, authority):
    center = network[2]
    for url, status in (("http://north.example", 400), ("ws://north.example", 400), ("https://north.example", 200)):
        join = Peer("coordinator", PartKey(b"n" * 32, "north"), SECRET).join(url)
        body = {"broker": "north", "url": url, "join": msgspec.to_builtins(join)}
        answer = httpx.post(center.url + "/registerbroker", json=body, verify=trusted(authority), timeout=60)
        assert answer.status_code == status


def test_the_commands_take_the_authority_from_the_environment(network, authority):
    where = ("balance", "log", "--coordinator", network[2].url)
    assert tocsin(*where, TOCSIN_TLS_CA=authority.ca).returncode == 0
    refused = tocsin(*where)
    assert refused.returncode == 1 and b"certificate" in refused.stderr.lower()


@pytest.mark.parametrize("part", ["cluster", "broker", "coordinator"])
def test_a_part_with_unusable_certificates_does_not_start(part, tmp_path):
    prefix = "TOCSIN_" if part == "cluster" else f"TOCSIN_{part.upper()}_"
    (tmp_path / "x.crt").write_text("not a certificate")
    env = {f"{prefix}TLS_CERTIFICATE": str(tmp_path / "x.crt")}
    ran = tocsin(part, "--port", "0", "--home", str(tmp_path / "home"), **env)
    assert ran.returncode == 1 and b"TLS cannot be set up with" in ran.stderr
