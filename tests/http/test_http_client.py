"""The plain client keeps connections, streams pieces, and reports every failure as an OSError."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tocsin.http.client import HttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


class Server:
    """Sends the given answers in order, and then closes the connection; an answer of None closes it too."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0)
                if answer is None:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def run_with(server: Server, test: Callable[[HttpClient], Awaitable[None]]) -> None:
    async def main() -> None:
        running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        caller = HttpClient(f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/base/")
        try:
            async with asyncio.timeout(300):
                await test(caller)
        finally:
            caller.close()
            running.close()

    asyncio.run(main())


async def get(caller: HttpClient, path: str = "/x", timeout: float = 30.0) -> tuple[int, bytes, bytes]:
    pieces: list[bytes] = []
    status, refusal = await caller.get(path, pieces.append, timeout)
    return status, b"".join(pieces), refusal


def test_a_connection_is_used_again():
    server = Server(OK, OK)

    async def test(caller: HttpClient) -> None:
        assert await get(caller, "/x?a=1") == await get(caller) == (200, b"hello", b"")

    run_with(server, test)
    assert server.connections == 1
    assert server.requests[0].startswith(b"GET /base/x?a=1 HTTP/1.1\r\nhost: 127.0.0.1:")


def test_a_posted_body_is_sent_together_with_its_head():
    server = Server(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def test(caller: HttpClient) -> None:
        assert await caller.post("/notify?x", b'{"a":1}\r\n\r\n', lambda piece: None, 30.0) == (204, b"")

    run_with(server, test)
    assert server.requests[0].startswith(b"POST /base/notify?x HTTP/1.1\r\n")
    assert b"content-type: application/json\r\ncontent-length: 11\r\n" in server.requests[0]


def test_a_chunked_answer_is_joined():
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"

    async def test(caller: HttpClient) -> None:
        assert await get(caller) == (200, b"hello", b"")

    run_with(Server(chunked), test)


def test_a_refusal_is_returned_as_a_whole():
    async def test(caller: HttpClient) -> None:
        assert await get(caller) == (404, b"", b"hello")
        assert (await get(caller))[0] == 200

    run_with(Server(OK.replace(b"200 OK", b"404 Not Found"), b"HTTP/1.1 100 Continue\r\n\r\n" + OK), test)


def test_a_connection_that_was_closed_while_idle_is_replaced():
    server = Server(OK, None, OK)

    async def test(caller: HttpClient) -> None:
        assert await get(caller) == await get(caller) == (200, b"hello", b"")

    run_with(server, test)
    assert server.connections == 2


def test_after_connection_close_a_new_connection_is_made():
    server = Server(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), OK)

    async def test(caller: HttpClient) -> None:
        assert await get(caller) == await get(caller) == (200, b"hello", b"")

    run_with(server, test)
    assert server.connections == 2


BAD = {"nothing": None, "half of it": OK[:-2], "not HTTP": b"hello?\r\n\r\n"}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_a_malformed_http_answer_is_an_error(answer):
    async def test(caller: HttpClient) -> None:
        with pytest.raises(OSError):
            await get(caller)

    run_with(Server(answer), test)


def test_a_silent_server_times_out():
    async def test(caller: HttpClient) -> None:
        with pytest.raises(TimeoutError):
            await get(caller, timeout=0.01)

    run_with(Server(b"", None), test)


def test_an_unreachable_server_is_an_error():
    async def test() -> None:
        with pytest.raises(OSError):
            await get(HttpClient("http://127.0.0.1:9"))

    asyncio.run(test())


def test_an_exception_of_the_receiver_ends_the_request():
    class Enough(Exception):
        pass

    def take(piece: bytes) -> None:
        raise Enough

    async def test(caller: HttpClient) -> None:
        with pytest.raises(Enough):
            await caller.get("/x", take, 30.0)
        assert (await get(caller))[0] == 200

    run_with(Server(OK, OK), test)
