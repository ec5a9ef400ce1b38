"""The ``websockets`` library's ``broadcast()`` on uvloop, as its documentation recommends for one message to many."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from contextlib import suppress

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed


async def main(payload: str) -> None:
    members: defaultdict[int, set[ServerConnection]] = defaultdict(set)

    async def subscriber(connection: ServerConnection) -> None:
        chosen = []
        try:
            # The counter disconnects without a close frame.
            with suppress(ConnectionClosed):
                async for message in connection:
                    chosen.append(int(message))
                    members[chosen[-1]].add(connection)
                    await connection.send("ok")
        finally:
            for topic in chosen:
                members[topic].discard(connection)

    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with serve(subscriber, "127.0.0.1", 0, compression=None, ping_interval=None, backlog=4096) as server:
        print("ready", server.sockets[0].getsockname()[1], flush=True)
        while line := await commands.readline():
            _, *topics = line.split()
            for topic in topics:
                broadcast(members[int(topic)], payload)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
