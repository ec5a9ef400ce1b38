"""One WebSocket connection of a client: it reads, writes and closes, and knows nothing of subscriptions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from tocsin.client.core.events import Connected, Disconnected, Event, Received
from tocsin.errors import Malformed
from tocsin.http.client import Context, trust
from tocsin.wire.messages import SUBPROTOCOL, decode_answers

log = logging.getLogger(__name__)

#: Bytes of the largest frame from a broker. The client trusts the broker, so this only limits mistakes.
LARGEST = 256 * 1024 * 1024
#: Seconds for the close frame of the broker.
CLOSE_TIMEOUT = 2.0


class Connection:
    def __init__(
        self, number: int, url: str, agent: str, dispatch: Callable[[Event], None], context: Context = trust
    ) -> None:
        self._context = context
        self.number = number
        self._url = url
        self._agent = agent
        self._dispatch = dispatch
        self._queue: deque[bytes | int] = deque()
        self._news = asyncio.Event()
        self._gate = asyncio.Event()
        self._gate.set()
        self._socket: ClientConnection | None = None
        self.task = asyncio.create_task(self._run(), name=f"tocsin connection {number}")

    def send(self, frames: Iterable[bytes]) -> None:
        self._queue.extend(frames)
        self._news.set()

    def read(self, on: bool) -> None:
        if on:
            self._gate.set()
        else:
            self._gate.clear()

    def close(self, code: int | None) -> None:
        """With a code: after everything that is still to be sent. Without: at once."""
        if code is not None and self._socket is not None:
            self._queue.append(code)
            self._news.set()
            self._gate.set()
            return
        if self._socket is not None:
            self._socket.transport.abort()
        self.task.cancel()

    async def _run(self) -> None:
        code, reason = None, ""
        try:
            socket = self._socket = await connect(
                self._url,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                compression=None,
                user_agent_header=self._agent,
                ssl=self._context() if self._url.startswith("wss:") else None,
                ping_interval=None,  # the protocol has heartbeats of its own, which carry positions
                open_timeout=None,  # the state machine has one
                close_timeout=CLOSE_TIMEOUT,
                max_size=LARGEST,
            )
            code, reason = await self._read(socket)
        except InvalidStatus as error:
            reason = f"the broker answered with status {error.response.status_code}"
        except ConnectionRefusedError:
            reason = "connection refused"
        except (OSError, WebSocketException) as error:
            reason = str(error) or type(error).__name__
        except Malformed as error:
            reason = f"the broker sent a malformed message: {error.message}"
        except Exception as error:
            log.exception("connection %d to %s", self.number, self._url)
            reason = f"{type(error).__name__}: {error}"
        if self._socket is not None:
            self._socket.transport.abort()
        self._dispatch(Disconnected(self.number, code, reason))

    async def _read(self, socket: ClientConnection) -> tuple[int | None, str]:
        """Reads until the connection ends. Returns the close code and the reason."""
        if socket.subprotocol != SUBPROTOCOL:
            return None, f"the server does not support {SUBPROTOCOL}"
        self._dispatch(Connected(self.number))
        writer = asyncio.create_task(self._write(socket), name=f"tocsin writer {self.number}")
        try:
            while True:
                await self._gate.wait()
                data = await socket.recv(decode=False)
                self._dispatch(Received(self.number, decode_answers(data)))
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd is not None else (None, "")
        finally:
            writer.cancel()

    async def _write(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed, OSError):
            while True:
                while self._queue:
                    item = self._queue.popleft()
                    if isinstance(item, int):
                        await socket.close(item)
                        return
                    await socket.send(item, text=True)
                self._news.clear()
                await self._news.wait()
        self._gate.set()  # the reader learns why the connection ended
