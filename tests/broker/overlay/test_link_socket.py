"""A link's connection and bytes that are no messages: it is closed with a code, and the broker serves the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tocsin.broker.overlay.neighbours import Neighbours
from tocsin.broker.upstream.introduction import Introduction
from tocsin.broker.upstream.peer_store import PeerStore
from tocsin.http.requests import header
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import Part, PartKey
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.messages import Frame, Hello, Session
from tocsin.overlay.content.router import Router
from tocsin.wire import links as wire
from tocsin.wire.close_codes import GOING_AWAY, MALFORMED, TOO_BIG, UNSUPPORTED
from tocsin.wire.reports import PeerAddress


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*given: Any, **more: Any) -> None:
        asyncio.run(test(*given, **more))

    return run


class Endpoint:
    """Trusts a broker by its name."""

    def sender(self, headers: Any) -> Part | None:
        name = header(headers, b"tocsin-part")
        return None if name is None else Part(name.decode(), "")


class Node:
    """The neighbours of one broker, on a socket of their own."""

    def __init__(self, folder: Path, name: str = "a") -> None:
        key = PartKey.load(folder / f"{name}.key", name)
        store = PeerStore(folder / f"{name}.json")
        introduction = Introduction(key, PeerAddress("http://x", "http://x"), store, "")
        endpoint: Any = Endpoint()
        self.neighbours = Neighbours(Router(name, epoch=1, rng=Random(1)), (), introduction, endpoint, Tls())

    async def __aenter__(self) -> Node:
        self.server = await asyncio.get_running_loop().create_server(self.neighbours.accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self.server.sockets[0].getsockname()[1]}{wire.LINK_PATH}"
        self.neighbours.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.neighbours.stop()
        self.server.close()

    def connect(self, name: str, **more: Any) -> connect:
        options: dict[str, Any] = {"subprotocols": [Subprotocol(wire.LINK_SUBPROTOCOL)], "proxy": None} | more
        return connect(self.url, additional_headers={"tocsin-part": name} if name else {}, **options)

    async def greets(self, name: str) -> None:
        """It still answers others."""
        async with self.connect(name) as socket:
            await socket.send(Codec().encode(Hello(Session(1, 1), None, {name: 1})).decode())
            assert isinstance(Codec().decode((await socket.recv()).encode()), Hello)  # type: ignore[union-attr]


FRAME = b'{"type":"link_frame","session":[1,1],"peer":[1,1],"acknowledged":0,"number":1,"body":%b}'


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("", MALFORMED),
        ("{", MALFORMED),
        ('{"type":"zap"}', MALFORMED),
        ((FRAME % b'{"type":"zap"}').decode(), MALFORMED),
        ((FRAME % b'{"type":"link_unsubscribe","id":"-1"}').decode(), MALFORMED),
        ("[" * 100_000, MALFORMED),
        (b"{}", UNSUPPORTED),
    ],
    ids=range(7),
)
@looped
async def test_a_message_that_cannot_be_read_closes_its_link_only(tmp_path, data, code):
    async with Node(tmp_path) as node:
        async with node.connect("hostile") as socket:
            await socket.send(data)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == code.code
        await node.greets("good")


@looped
async def test_a_message_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tocsin.broker.overlay.link_socket.LINK_BYTES", 1_000)
    async with Node(tmp_path) as node:
        for pieces in (["x" * 1_001], ["x" * 600, "x" * 600]):
            async with node.connect("hostile") as socket:
                with pytest.raises(ConnectionClosed) as closed:
                    await socket.send(pieces[0] if len(pieces) == 1 else iter(pieces))
                    while True:
                        await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == TOO_BIG.code
        await node.greets("good")


@looped
async def test_who_has_not_joined_or_speaks_another_protocol_gets_no_link(tmp_path):
    async with Node(tmp_path) as node:
        with pytest.raises(InvalidStatus) as refused:
            await node.connect("")
        assert refused.value.response.status_code == 401
        with pytest.raises(InvalidStatus) as refused:
            await node.connect("b", subprotocols=None)
        assert refused.value.response.status_code == 400
        await node.greets("good")


@looped
async def test_a_frame_of_no_known_session_is_answered_and_does_no_harm(tmp_path):
    async with Node(tmp_path) as node:
        async with node.connect("b") as socket:
            await socket.send(Codec().encode(Frame(Session(7, 7), Session(8, 8), 3)).decode())
            assert "link_reset" in str(await socket.recv())
        assert node.neighbours.view().links == []


@looped
async def test_neighbours_know_when_this_broker_stops(tmp_path):
    async with Node(tmp_path) as node, node.connect("b") as socket:
        await socket.send(Codec().encode(Hello(Session(1, 1), None, {"b": 1})).decode())
        await socket.recv()
        await node.neighbours.stop()
        said = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                said.append(await socket.recv())
        assert "link_goodbye" in str(said) and closed.value.rcvd is not None
        assert closed.value.rcvd.code == GOING_AWAY.code
