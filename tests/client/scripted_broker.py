"""A real WebSocket server that a test scripts, in place of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tocsin.wire import messages as wire


class ScriptedBroker:
    """Welcomes clients, confirms subscriptions (from execution 10) and keeps the messages that it received.

    ``silent`` names messages that it does not answer. ``blocked``: the client does not read what it sends.
    """

    def __init__(self, *silent: type[Any], port: int = 0, subprotocol: str = wire.SUBPROTOCOL, **welcome: Any) -> None:
        self.silent = silent
        self.received: list[Any] = []
        self.frame_sizes: list[int] = []
        self.sockets: list[ServerConnection] = []
        self.closes: list[int | None] = []
        self.at = 10
        self.id_of: Callable[[wire.Subscribe], int] = lambda message: 5 if message.channel == "C" else 6
        self._port = port
        self._subprotocol = subprotocol
        self._welcome = {"broker": "scripted", "heartbeat": 30.0, "frame_bytes": 1 << 20} | welcome
        self._changed = asyncio.Condition()
        self.blocked = asyncio.Event()
        self._server: Server | None = None

    async def __aenter__(self) -> ScriptedBroker:
        protocols: Any = [self._subprotocol]
        self._server = await serve(self._serve, "127.0.0.1", self._port, subprotocols=protocols, compression=None)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def _serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        pause = socket.pause_writing

        def note_pause() -> None:
            pause()
            self.blocked.set()

        socket.pause_writing = note_pause  # type: ignore[method-assign]
        try:
            async for data in socket:
                self.frame_sizes.append(len(data.encode() if isinstance(data, str) else data))
                for message in wire.decode(data):
                    async with self._changed:
                        self.received.append(message)
                        self._changed.notify_all()
                    if not isinstance(message, self.silent):
                        await self._answer(message)
        except ConnectionClosed:
            pass
        async with self._changed:
            self.closes.append(socket.close_code)
            self._changed.notify_all()

    async def _answer(self, message: Any) -> None:
        match message:
            case wire.Hello():
                await self.send(wire.Welcome(message.id, **self._welcome))
            case wire.Subscribe():
                after = self.at if message.after is None else message.after
                await self.send(wire.Subscribed(message.id, self.id_of(message), message.channel, after))
            case wire.Unsubscribe():
                await self.send(wire.Unsubscribed(message.id, message.subscription))
            case wire.Publish():
                await self.send(wire.Published(message.id, len(message.records)))

    async def send(self, *messages: wire.Message) -> None:
        await self.sockets[-1].send(wire.encode_batch([wire.encode(message) for message in messages]), text=True)

    async def notify(self, *executions: int, id: int = 5, channel: str = "C", text: str = "") -> None:
        await self.send(*(wire.Notify(channel, id, each, 1, [{"n": each, "t": text}]) for each in executions))

    async def until(self, kind: type[Any], times: int = 1) -> Any:
        """Waits for the N-th message of this kind and returns it."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.all(kind)) >= times)
        return self.all(kind)[times - 1]

    async def until_closed(self, times: int = 1) -> int | None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.closes) >= times)
        return self.closes[times - 1]

    def all(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.received if isinstance(message, kind)]

    def cut(self) -> None:
        """Breaks the connection without a close frame."""
        self.sockets[-1].transport.abort()
