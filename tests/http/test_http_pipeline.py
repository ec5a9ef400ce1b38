"""Pipelined requests on a connection: each answer arrives once and in order, and every end is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tocsin.http.client import Address, Unreadable
from tocsin.http.pipeline import BODY_BYTES, Answer, Pipeline, Stale

DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
MORE = b"HTTP/1.1 204 No Content\r\nTocsin-Unanswered: 8\r\n\r\n"
LAST = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
ASIDE = b"HTTP/1.1 100 Continue\r\n\r\n"
BAD = b"HTTP/1.1 400 Refused\r\ncontent-length: 3\r\n\r\nbad"
HUGE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (1 << 40) + b"x" * (BODY_BYTES + 1)


class ScriptedPipeline:
    """A pipeline to a server that the test scripts; ``received`` has the answers and the end."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.received: asyncio.Queue[Answer | OSError] = asyncio.Queue()
        self.requests: asyncio.Queue[bytes] = asyncio.Queue()
        self.writer: asyncio.StreamWriter

    async def open(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        address = Address(f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}")
        self.pipe = Pipeline(address, self.received.put_nowait, self.received.put_nowait, self.timeout)
        await self.pipe.open()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            while True:
                self.requests.put_nowait(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def ask(self, count: int) -> list[bytes]:
        """Sends ``count`` requests, none of which is answered yet."""
        for _ in range(count):
            self.pipe.post("/notify", b"{}", b"x: y\r\n")
        return [await self.requests.get() for _ in range(count)]

    async def next(self) -> int | type[OSError]:
        found = await self.received.get()
        return found.status if isinstance(found, Answer) else type(found)


def run_with(test: Callable[[ScriptedPipeline], Awaitable[None]], timeout: float = 60.0) -> None:
    async def main() -> None:
        line = ScriptedPipeline(timeout)
        await line.open()
        try:
            async with asyncio.timeout(300):
                await test(line)
        finally:
            line.pipe.close()
            line.server.close()

    asyncio.run(main())


def test_requests_are_pipelined_and_answers_may_arrive_in_any_fragments():
    async def test(line: ScriptedPipeline) -> None:
        first, *_ = await line.ask(3)
        assert first.startswith(b"POST /notify HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"content-length: 2\r\nx: y\r\n\r\n" in first
        line.writer.write(MORE + DONE[:7])
        assert await line.received.get() == Answer(204, {b"tocsin-unanswered": b"8"})
        line.writer.write(DONE[7:] + ASIDE + DONE)
        assert await line.received.get() == await line.received.get() == Answer(204, {})

    run_with(test)


def test_a_refusal_counts_as_an_answer():
    async def test(line: ScriptedPipeline) -> None:
        await line.ask(2)
        line.writer.write(BAD + DONE)
        assert [await line.next(), await line.next()] == [400, 204]

    run_with(test)


def test_a_receiver_that_closes_the_pipeline_receives_nothing_more():
    async def test(line: ScriptedPipeline) -> None:
        line.pipe._on_answer = lambda answer: (line.received.put_nowait(answer), line.pipe.close())
        await line.ask(2)
        line.writer.write(DONE + DONE)
        assert await line.next() == 204
        await line.writer.wait_closed()
        assert line.received.empty()

    run_with(test)


ENDS = {
    "not HTTP": (b"what?\r\n\r\n", [Unreadable]),
    "no answer": (b"", [ConnectionResetError]),
    "half an answer": (DONE[:9], [ConnectionResetError]),
    "an answer and an end": (LAST, [204, Stale]),
    "an answer that does not end": (HUGE, [200, Stale]),
    "more answers than requests": (DONE * 3, [204, 204, Unreadable]),
}


@pytest.mark.parametrize(("data", "received"), ENDS.values(), ids=ENDS)
def test_every_end_is_reported_once_and_after_the_answers(data, received):
    async def test(line: ScriptedPipeline) -> None:
        await line.ask(2)
        line.writer.write(data)
        line.writer.write_eof()
        assert [await line.next() for _ in received] == received
        await line.writer.wait_closed()
        assert line.received.empty()

    run_with(test)


def test_an_end_after_an_answer_allows_a_new_connection():
    async def test(line: ScriptedPipeline) -> None:
        await line.ask(1)
        line.writer.write(DONE)
        assert await line.next() == 204
        await line.ask(1)
        line.writer.close()
        assert await line.next() is Stale

    run_with(test)


def test_a_missing_answer_closes_the_connection_after_the_timeout():
    async def test(line: ScriptedPipeline) -> None:
        await line.ask(1)
        assert await line.next() is TimeoutError
        await line.writer.wait_closed()

    run_with(test, timeout=0.2)


def test_an_unreachable_server_is_an_error():
    async def main() -> None:
        pipe = Pipeline(Address("http://127.0.0.1:1"), print, print, 1.0)
        with pytest.raises(OSError):
            await pipe.open()

    asyncio.run(main())
