"""A light load client: ready-made requests over raw keep-alive sockets, one epoll loop, next to no work a request."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Says whether the bytes so far are a whole answer; raises where they are an error.
Complete = Callable[[bytes], bool]


@dataclass(frozen=True)
class Load:
    """What came out of a run."""

    requests: int
    seconds: float
    latencies: list[float]


def drive(sockets: Sequence[socket.socket], requests: Sequence[bytes], complete: Complete, seconds: float) -> Load:
    """Each connection sends the next request as soon as the last was answered, until the time is over."""
    poll = select.epoll()
    by_number = {each.fileno(): each for each in sockets}
    buffers: dict[int, bytes] = {}
    sent: dict[int, float] = {}
    latencies: list[float] = []
    clock = time.perf_counter
    turn = 0
    started = clock()
    end = started + seconds
    try:
        for number, each in by_number.items():
            each.setblocking(True)
            poll.register(number, select.EPOLLIN)
            buffers[number], sent[number] = b"", clock()
            each.sendall(requests[turn % len(requests)])
            turn += 1
        busy = len(by_number)
        while busy:
            ready = poll.poll(30.0)
            if not ready:
                raise RuntimeError("the server has not answered for 30 seconds")
            for number, _ in ready:
                each = by_number[number]
                part = each.recv(262_144)
                if not part:
                    raise RuntimeError("the server closed the connection")
                got = buffers[number] + part
                if not complete(got):
                    buffers[number] = got
                    continue
                now = clock()
                latencies.append(now - sent[number])
                if now >= end:
                    busy -= 1
                    continue
                buffers[number], sent[number] = b"", now
                each.sendall(requests[turn % len(requests)])
                turn += 1
    finally:
        poll.close()
    return Load(len(latencies), clock() - started, latencies)


def connect(port: int, host: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection((host, port), 30.0)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """One HTTP request on a kept connection; the body of the answer, which has a length or comes in chunks."""
    connection.sendall(request)
    got = b""
    while (head := got.find(b"\r\n\r\n")) < 0:
        got += _more(connection)
    header, body = got[:head].lower(), got[head + 4 :]
    if not header.startswith(b"http/1.1 200"):
        raise RuntimeError(f"the server answered {got[:500]!r}")
    if b"transfer-encoding: chunked" in header:
        return _chunks(connection, body)
    length = _length(header)
    parts, size = [body], len(body)
    while size < length:
        parts.append(_more(connection))
        size += len(parts[-1])
    return b"".join(parts)


def _chunks(connection: socket.socket, got: bytes) -> bytes:
    out: list[bytes] = []
    while True:
        while (end := got.find(b"\r\n")) < 0:
            got += _more(connection)
        size = int(got[:end], 16)
        parts, have = [got[end + 2 :]], len(got) - end - 2
        while have < size + 2:
            parts.append(_more(connection))
            have += len(parts[-1])
        whole = b"".join(parts)
        if not size:
            return b"".join(out)
        out.append(whole[:size])
        got = whole[size + 2 :]


def _more(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 20)
    if not part:
        raise RuntimeError("the server closed the connection")
    return part


def _length(header: bytes) -> int:
    _, found, rest = header.partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


# -- the three protocols -----------------------------------------------------------------------------------------------


def http_post(path: str, body: bytes, kind: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def http_get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def http_complete(got: bytes) -> bool:
    head = got.find(b"\r\n\r\n")
    if head < 0:
        return False
    if not got.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server answered {got[:500]!r}")
    return len(got) >= head + 4 + _length(got[:head].lower())


def postgres_execute(statement: str, values: Sequence[str]) -> bytes:
    """Bind, Execute and Sync of a prepared statement, with text parameters."""
    encoded = [value.encode() for value in values]
    bind = b"\0" + statement.encode() + b"\0" + b"\0\0" + len(encoded).to_bytes(2)
    bind += b"".join(len(value).to_bytes(4) + value for value in encoded) + b"\0\0"
    return b"B" + (len(bind) + 4).to_bytes(4) + bind + b"E\0\0\0\x09\0\0\0\0\0" + b"S\0\0\0\x04"


def postgres_complete(got: bytes) -> bool:
    if not got.startswith(b"2"):
        raise RuntimeError(f"PostgreSQL answered {got[:500]!r}")
    return got[-6:-1] == b"Z\0\0\0\x05"


def redis_add(stream: str, records: Sequence[bytes]) -> bytes:
    """One XADD a record, in one write."""
    key = f"*5\r\n$4\r\nXADD\r\n${len(stream)}\r\n{stream}\r\n$1\r\n*\r\n$1\r\nr\r\n".encode()
    return b"".join(key + f"${len(record)}\r\n".encode() + record + b"\r\n" for record in records)


def redis_complete(count: int) -> Complete:
    def complete(got: bytes) -> bool:
        if not got.startswith(b"$"):
            raise RuntimeError(f"Redis answered {got[:200]!r}")
        return got.count(b"\r\n") >= 2 * count

    return complete
