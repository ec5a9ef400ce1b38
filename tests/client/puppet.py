"""A small real WebSocket server that says what a test makes it say, in place of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tocsin.wire import messages as wire


class Puppet:
    """Welcomes, confirms subscriptions (number by channel, from execution 10) and counts what it heard.

    ``silent`` names messages that it does not answer. ``felt``: somebody does not read what it says.
    """

    def __init__(self, *silent: type[Any], port: int = 0, subprotocol: str = wire.SUBPROTOCOL, **welcome: Any) -> None:
        self.silent = silent
        self.heard: list[Any] = []
        self.frame_sizes: list[int] = []
        self.sockets: list[ServerConnection] = []
        self.closes: list[int | None] = []
        self.at = 10
        self.number_of: Callable[[wire.Subscribe], int] = lambda message: 5 if message.channel == "C" else 6
        self._port = port
        self._subprotocol = subprotocol
        self._welcome = {"broker": "puppet", "heartbeat": 30.0, "frame_bytes": 1 << 20} | welcome
        self._news = asyncio.Condition()
        self.felt = asyncio.Event()
        self._server: Server | None = None

    async def __aenter__(self) -> Puppet:
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

        def feel() -> None:
            pause()
            self.felt.set()

        socket.pause_writing = feel  # type: ignore[method-assign]
        try:
            async for data in socket:
                self.frame_sizes.append(len(data.encode() if isinstance(data, str) else data))
                for message in wire.decode(data):
                    async with self._news:
                        self.heard.append(message)
                        self._news.notify_all()
                    if not isinstance(message, self.silent):
                        await self._answer(message)
        except ConnectionClosed:
            pass
        async with self._news:
            self.closes.append(socket.close_code)
            self._news.notify_all()

    async def _answer(self, message: Any) -> None:
        match message:
            case wire.Hello():
                await self.say(wire.Welcome(message.id, **self._welcome))
            case wire.Subscribe():
                after = self.at if message.after is None else message.after
                await self.say(wire.Subscribed(message.id, self.number_of(message), message.channel, after))
            case wire.Unsubscribe():
                await self.say(wire.Unsubscribed(message.id, message.subscription))
            case wire.Publish():
                await self.say(wire.Published(message.id, len(message.records)))

    async def say(self, *messages: wire.Message) -> None:
        await self.sockets[-1].send(wire.encode_batch([wire.encode(message) for message in messages]), text=True)

    async def notify(self, *executions: int, number: int = 5, channel: str = "C", text: str = "") -> None:
        await self.say(*(wire.Notify(channel, number, each, 1, [{"n": each, "t": text}]) for each in executions))

    async def until(self, kind: type[Any], times: int = 1) -> Any:
        """The message of this kind that came as the so many-th."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.all(kind)) >= times)
        return self.all(kind)[times - 1]

    async def until_closed(self, times: int = 1) -> int | None:
        async with self._news:
            await self._news.wait_for(lambda: len(self.closes) >= times)
        return self.closes[times - 1]

    def all(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]

    def cut(self) -> None:
        """Breaks the connection without a word."""
        self.sockets[-1].transport.abort()
