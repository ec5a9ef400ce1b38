"""Brokers join each other and exchange messages over HTTP; what is not from a part of the network is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.balancing.host import messages as ms
from tocsin.broker.core.instructions import SendToPeer
from tocsin.broker.transport.driver import Driver
from tocsin.broker.upstream.peer_client import WAITING, PeerClient
from tocsin.broker.upstream.peer_endpoint import PeerEndpoint
from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.config import BrokerBalancing, BrokerConfig
from tocsin.http.request_handler import handle
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import PartKey, Peer
from tocsin.wire.peer_join import PeerJoin
from tocsin.wire.reports import PeerAddress

PUSH = ms.Push(())


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


class Node:
    """One broker: the real driver, client and endpoint, connected to others in this process."""

    def __init__(self, folder: Path, name: str, network: dict[str, Node], secret: str = "s", **balancing: Any) -> None:
        self.url = f"http://{name}.local"
        config = BrokerConfig(name=name, balancing=BrokerBalancing("peers", **balancing))
        self.driver = Driver(config, asyncio.get_running_loop())
        address, key = PeerAddress(f"http://{name}", self.url), PartKey.load(folder / f"{name}.key", name)
        self.store = PeerStore(folder / f"{name}.peers.json")
        self.client = PeerClient(self.driver, key, address, self.store, secret, Tls())
        self.endpoint = PeerEndpoint(self.driver, key, address, self.store, secret)
        self.key, self.network = key, network
        network[f"{name}.local"] = self
        self.client._client = httpx.AsyncClient(transport=self)
        self.driver._carry_out |= dict.fromkeys((SendToPeer,), self.client.carry_out)
        self.received: list[tuple[str, Any]] = []
        self.driver.handle, self._handle = self._observed, self.driver.handle  # type: ignore[method-assign]

    def _observed(self, event: Any) -> None:
        self.received.append((type(event).__name__, event))
        for it in self.driver.state.handle(event, self.driver.loop.time()):
            self.client.carry_out(it)  # type: ignore[arg-type]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        node = self.network.get(request.url.host)
        if node is None:
            raise httpx.ConnectError("no such host")
        return await httpx.ASGITransport(node.app).handle_async_request(request)

    async def aclose(self) -> None:
        pass

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        await handle(self.endpoint.router, scope, receive, send)

    def events(self, kind: str) -> list[Any]:
        return [event for name, event in self.received if name == kind]

    async def send(self, broker: str, *messages: Any) -> None:
        for message in messages or (PUSH,):
            self.client.carry_out(SendToPeer(broker, message))
        while self.client._tasks:
            await asyncio.gather(*self.client._tasks)


async def post(node: Node, path: str, body: Any, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(node.app), base_url="http://x") as http:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await http.post(path, content=content, headers=headers)


async def pair(folder: Path, **more: Any) -> tuple[Node, Node]:
    network: dict[str, Node] = {}
    one = Node(folder, "one", network)
    two = Node(folder, "two", network, peers=(one.url,), **more)
    two.client.start()
    if more.get("secret", "s") == "s":
        await asyncio.gather(*two.client._tasks)
    return one, two


@looped
async def test_a_broker_finds_another_by_its_configuration_and_both_can_send(tmp_path):
    one, two = await pair(tmp_path)
    await two.send("one", PUSH, ms.Pull(1, "two"))
    await one.send("two")
    assert [(each.sender, each.message) for each in one.events("PeerMessage")] == [
        ("two", PUSH),
        ("two", ms.Pull(1, "two")),
    ]
    assert {each.sender for each in two.events("PeerMessage")} == {"one"}
    assert one.events("PeerAnswered") and not one.events("PeerUnreachable")


@looped
async def test_after_a_restart_the_others_are_known_from_the_disk(tmp_path):
    one, two = await pair(tmp_path)
    again = Node(tmp_path, "two", one.network)
    again.client.start()
    await again.send("one")
    assert again.events("PeersKnown")[0].peers == {"one": PeerAddress("http://one", one.url)}
    assert [each.sender for each in one.events("PeerMessage")] == ["two"]
    assert two.key.public == again.key.public


@looped
async def test_a_broker_that_lost_its_list_is_joined_again(tmp_path):
    one, two = await pair(tmp_path)
    one.store._known.clear()
    await two.send("one")
    assert [each.sender for each in one.events("PeerMessage")] == ["two"]


@looped
async def test_a_broker_with_another_secret_is_not_joined(tmp_path):
    one, two = await pair(tmp_path, secret="another")
    with pytest.raises(OSError, match="join secret"):
        await two.client._join(one.url, None)
    await two.client.stop()
    assert not one.events("PeersKnown") and one.store.key("two") == ""


@looped
async def test_a_name_stays_with_its_key(tmp_path):
    one, _ = await pair(tmp_path)
    (tmp_path / "thief").mkdir()
    thief = Node(tmp_path / "thief", "two", dict(one.network))
    with pytest.raises(OSError, match="another broker is known as two"):
        await thief.client._join(one.url, None)
    itself = Node(tmp_path / "thief", "one", dict(one.network))
    itself.network["one.local"] = one
    with pytest.raises(OSError, match="another broker is known as one"):
        await itself.client._join(one.url, None)


@looped
async def test_messages_without_a_valid_token_are_refused(tmp_path):
    one, two = await pair(tmp_path)
    before = len(one.received)
    stranger = PartKey.load(tmp_path / "stranger.key", "two")
    body = [msgspec.to_builtins(PUSH)]
    for headers in (
        {},
        {"tocsin-part": "nonsense"},
        {"tocsin-part": stranger.token(one.key.public)},
        {"tocsin-part": two.key.token(two.key.public)},  # for another receiver
    ):
        answer = await post(one, "/peers/messages", body, **headers)
        assert answer.status_code == 401, answer.text
    assert len(one.received) == before


@looped
async def test_bodies_that_are_no_messages_are_refused_with_a_reason(tmp_path):
    one, two = await pair(tmp_path)
    before = len(one.received)
    token = {"tocsin-part": two.key.token(one.key.public)}
    for body in (b"", b"{", b'[{"type": "Unknown"}]', b'[{"type": "Accept"}]', b'{"type": "Push"}', b"[1]"):
        answer = await post(one, "/peers/messages", body, **token)
        assert answer.status_code == 400 and answer.json()["error"]["message"], body
    assert (await post(one, "/peers/join", b"{}")).status_code == 400
    assert len(one.received) == before


@looped
async def test_without_a_secret_only_brokers_of_this_machine_join(tmp_path):
    one = Node(tmp_path, "one", {}, secret="")
    far = PartKey.load(tmp_path / "far.key", "far")
    for url, status in (("http://10.0.0.9:1", 401), ("http://127.0.0.1:1", 200)):
        join = Peer("broker", far, "").join(url)
        answer = await post(one, "/peers/join", PeerJoin("far", PeerAddress("http://far", url), join))
        assert answer.status_code == status, answer.text


@looped
async def test_a_broker_that_does_not_answer_is_reported_and_what_waits_is_dropped(tmp_path):
    one, two = await pair(tmp_path)
    del one.network["one.local"]
    await two.send("one", *[PUSH] * (WAITING + 50))
    assert {each.broker for each in two.events("PeerUnreachable")} == {"one"}
    assert not two.client._outboxes["one"].waiting


@looped
async def test_a_damaged_list_of_brokers_begins_again(tmp_path):
    (tmp_path / "one.peers.json").write_bytes(b"{damaged")
    assert PeerStore(tmp_path / "one.peers.json").addresses == {}
