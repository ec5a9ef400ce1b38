"""The limit of a server in Python: on uvloop, it writes ready frames to its subscribers and does nothing else.

It reads and prints the same lines as ``limit.c``. A burst is one write for each connection, as there when it coalesces.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import os
import sys
from collections import Counter, defaultdict
from typing import Any

import uvloop

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MASKED_HEAD = 6


class Subscriber(asyncio.Protocol):
    def __init__(self, members: defaultdict[int, list[int]]) -> None:
        self._members = members
        self._rest = b""
        self._open = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while self._message() if self._open else self._upgrade():
            pass

    def _upgrade(self) -> bool:
        head, end, rest = self._rest.partition(b"\r\n\r\n")
        if not end:
            return False
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
        accept = base64.b64encode(hashlib.sha1(fields[b"Sec-WebSocket-Key"] + _GUID).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: %b\r\n\r\n" % accept
        )
        self._rest, self._open = rest, True
        return True

    def _message(self) -> bool:
        """One short masked message: the number of a topic."""
        rest = self._rest
        if len(rest) < 2 or len(rest) < (end := _MASKED_HEAD + (rest[1] & 0x7F)):
            return False
        mask, text = rest[2:_MASKED_HEAD], rest[_MASKED_HEAD:end]
        self._rest = rest[end:]
        topic = int(bytes(byte ^ mask[at % 4] for at, byte in enumerate(text)))
        self._members[topic].append(self._fd)
        self._transport.write(b"\x81\x02ok")
        return True


class Commands(asyncio.Protocol):
    """``publish T T …``: one message to each of the topics."""

    def __init__(self, members: defaultdict[int, list[int]], payload: bytes, ended: asyncio.Event) -> None:
        self._members = members
        self._frame = b"\x81\x7e%b%b" % (len(payload).to_bytes(2), payload)
        self._ended = ended
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            topics = line.split()[1:]
            if len(topics) == 1:
                frame = self._frame
                for fd in self._members[int(topics[0])]:
                    os.write(fd, frame)
            else:
                counts = Counter(fd for topic in topics for fd in self._members[int(topic)])
                for fd, count in counts.items():
                    os.write(fd, self._frame * count)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()


async def main(payload: bytes) -> None:
    members: defaultdict[int, list[int]] = defaultdict(list)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Subscriber(members), "127.0.0.1", 0, backlog=4096)
    await loop.connect_read_pipe(lambda: Commands(members, payload, ended), sys.stdin)
    gc.disable()  # this program makes no reference cycles
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1].encode()))
