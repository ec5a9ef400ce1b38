"""Many connections to a broker that answer its heartbeats, as clients do; the counter in C is mute."""

from __future__ import annotations

import select
import socket
import threading

from benchmarks.fanout.counter import Endpoint, Opening

HEAD = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
)


def masked(message: bytes) -> bytes:
    """A text frame of a client; the mask is zero, which changes nothing."""
    size = len(message)
    if size < 126:
        return bytes((0x81, 0x80 | size)) + bytes(4) + message
    return bytes((0x81, 0x80 | 126)) + size.to_bytes(2, "big") + bytes(4) + message


PONG = masked(b'{"type":"pong"}')


def handshake(endpoint: Endpoint) -> socket.socket:
    """A connection that has become a WebSocket."""
    made = socket.create_connection(("127.0.0.1", endpoint.port), 60.0)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(HEAD.format(path=endpoint.path, subprotocol=endpoint.subprotocol).encode())
    answer = made.recv(4096)
    if not answer.startswith(b"HTTP/1.1 101 ") or not answer.endswith(b"\r\n\r\n"):
        raise RuntimeError(f"no WebSocket: {answer!r}")
    return made


class Holder:
    """Enter it to open all connections; from then on a thread answers pings."""

    def __init__(self, endpoint: Endpoint, openings: list[Opening]) -> None:
        self._endpoint, self._openings = endpoint, openings
        self._sockets: dict[int, socket.socket] = {}
        self._poll = select.epoll()
        self._ending = False
        self._thread = threading.Thread(target=self._answer)
        #: Of all connections together; notifies the waiting thread of each.
        self.pings = 0
        self.pinged = threading.Condition()

    def __enter__(self) -> Holder:
        for opening in self._openings:
            made = handshake(self._endpoint)
            made.sendall(b"".join(masked(message) for message in opening.messages))
            received = b""
            while received.count(self._endpoint.answer) < opening.answers:
                received += made.recv(65_536)
            made.setblocking(False)
            self._sockets[made.fileno()] = made
            self._poll.register(made.fileno(), select.EPOLLIN)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        if self._thread.ident is not None:
            self._thread.join()
        self._poll.close()
        for each in self._sockets.values():
            each.close()

    @property
    def alive(self) -> bool:
        """Whether every connection is still there."""
        return self._thread.is_alive()

    def _answer(self) -> None:
        while not self._ending:
            for number, _ in self._poll.poll(0.5):
                data = self._sockets[number].recv(65_536)
                if not data:
                    raise RuntimeError("the broker closed a connection")
                pings = data.count(b'"type":"ping"')
                self._sockets[number].send(PONG * pings)
                with self.pinged:
                    self.pings += pings
                    self.pinged.notify_all()
