"""Web pages of other sites reach no server: not by DNS rebinding, and not from an origin that is not allowed."""

from __future__ import annotations

import socket

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tocsin.wire import SUBPROTOCOL

#: The origin that brokers and coordinator allow here.
APP = "https://app.example.org"

ROUTES = [
    *[("data cluster", *each) for each in (("GET", "/"), ("GET", "/channels"), ("POST", "/sql"), ("GET", "/metrics"))],
    *[("data cluster", *each) for each in (("POST", "/feeds/LocationFeed"), ("PUT", "/brokers/b"), ("GET", "/none"))],
    *[("coordinator", *each) for each in (("GET", "/topology"), ("GET", "/ui/"), ("GET", "/events"))],
    *[("coordinator", *each) for each in (("POST", "/registerbroker"), ("POST", "/requestbroker"))],
    *[("broker", *each) for each in (("GET", "/load"), ("POST", "/login"), ("GET", "/events?channel=OfKind&kind=a"))],
    *[("inner port", *each) for each in (("POST", "/notify"), ("GET", "/load"))],
]


@pytest.mark.parametrize(("server", "method", "path"), ROUTES)
@pytest.mark.parametrize("name", ["evil.example", "localhost.evil.example", "192.168.0.1"])
def test_a_page_whose_name_resolves_to_loopback_is_refused_on_every_route(servers, server, method, path, name):
    url = servers[server]
    host = f"{name}:{url.rpartition(':')[2]}"
    answer = httpx.request(method, url + path, headers={"host": host, "origin": f"http://{host}"}, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin")


@pytest.mark.parametrize("server", ["data cluster", "coordinator", "broker", "inner port"])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.0.0.9", "[::1]", "LOCALHOST"])
def test_every_name_of_loopback_is_accepted_with_any_port(servers, server, name):
    for host in (name, f"{name}:1"):
        assert httpx.get(servers[server] + "/healthz", headers={"host": host}, timeout=60).status_code == 200


@pytest.mark.parametrize(("server", "method", "path"), ROUTES)
def test_a_page_of_another_site_is_refused_on_every_route(servers, server, method, path):
    answer = httpx.request(method, servers[server] + path, headers={"origin": "https://evil.example"}, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin")
    assert "access-control-allow-origin" not in answer.headers


def upgrade(url: str, **headers: str) -> None:
    address = url.replace("http", "ws", 1) + "/v1/ws"
    subprotocols = [Subprotocol(SUBPROTOCOL)]
    with connect(address, subprotocols=subprotocols, proxy=None, additional_headers=headers, open_timeout=60):
        pass


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.org.evil.example", ""])
def test_a_web_socket_from_another_origin_is_refused(servers, origin):
    with pytest.raises(InvalidStatus) as refused:
        upgrade(servers["broker"], origin=origin)
    assert refused.value.response.status_code == 403


def test_a_web_socket_is_accepted_without_an_origin_and_from_allowed_ones(servers):
    url = servers["broker"]
    upgrade(url)
    upgrade(url, origin=url)
    upgrade(url, origin=APP)


def test_a_web_socket_under_a_foreign_name_is_refused(servers):
    host, port = servers["broker"].removeprefix("http://").split(":")
    address = f"ws://evil.example:{port}/v1/ws"
    made = socket.create_connection((host, int(port)), 60)
    with pytest.raises(InvalidStatus) as refused, connect(address, sock=made, proxy=None):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(("server", "path"), [("broker", "/subscribe"), ("coordinator", "/requestbroker")])
def test_a_preflight_from_an_allowed_origin_is_answered_and_from_others_refused(servers, server, path):
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    answer = httpx.options(servers[server] + path, headers=asks | {"origin": APP}, timeout=60)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == APP
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert {"authorization", "content-type"} <= set(answer.headers["access-control-allow-headers"].split(", "))
    assert httpx.options(servers[server] + path, headers=asks | {"origin": "https://x"}, timeout=60).status_code == 403


@pytest.mark.parametrize(
    ("server", "path"), [("broker", "/listchannels"), ("coordinator", "/topology"), ("broker", "/no")]
)
def test_a_page_of_an_allowed_origin_may_read_answers(servers, server, path):
    answer = httpx.get(servers[server] + path, headers={"origin": APP}, timeout=60)
    assert answer.headers["access-control-allow-origin"] == APP and answer.headers["vary"] == "origin"


@pytest.mark.parametrize(("server", "path"), [("broker", "/events?channel=OfKind&kind=a"), ("coordinator", "/events")])
def test_an_event_stream_from_an_allowed_origin_may_be_read(servers, server, path):
    with httpx.stream("GET", servers[server] + path, headers={"origin": APP}, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["access-control-allow-origin"] == APP


def test_without_an_admin_token_an_allowed_origin_may_not_make_changes(servers):
    answer = httpx.post(servers["coordinator"] + "/brokers/b/drain", headers={"origin": APP}, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_origin")
