"""The counter's process: it connects, subscribes, counts, and reports when all deliveries have arrived."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fanout import processes
from benchmarks.fanout.compiler import TLS, program


@dataclass(frozen=True)
class Opening:
    """What one connection sends first, and how many answers it waits for."""

    messages: list[bytes]
    answers: int


@dataclass(frozen=True)
class Endpoint:
    """How a connection to a server begins; with ``path`` it is a WebSocket, without it plain TCP."""

    port: int
    marker: bytes
    answer: bytes = b""
    path: str = ""
    subprotocol: str = ""
    binary: bool = False
    tls: bool = False
    #: Count bytes, this number for each delivery, instead of markers.
    frame: int = 0


@dataclass(frozen=True)
class Count:
    """So far: deliveries, WebSocket data frames, bytes; when the first and the last since the previous one came."""

    deliveries: int
    frames: int
    bytes: int
    first: int
    last: int


class Counter:
    """Connections to one server. Enter it to connect them all; leaving it ends the process."""

    def __init__(
        self, endpoint: Endpoint, openings: Iterable[Opening], core: int | None = None, executable: Path | None = None
    ):
        self._folder = tempfile.TemporaryDirectory(prefix="tocsin-counter-")
        file = Path(self._folder.name) / "openings"
        self.connections = _save(file, openings)
        given = {
            "port": endpoint.port,
            "connections": self.connections,
            "openings": file,
            "marker": endpoint.marker.hex(),
            "ack": endpoint.answer.hex(),
            "ws": endpoint.path,
            "subprotocol": endpoint.subprotocol,
            "opcode": 2 if endpoint.binary else 1,
            "frame": endpoint.frame,
        }
        words = [f"{name}={value}" for name, value in given.items() if value]
        chosen = executable or program("counter", TLS if endpoint.tls else ())
        self._command = processes.bound([str(chosen), *words], core)
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def __enter__(self) -> Counter:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        try:
            self._event("ready", 180.0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            processes.end(self._process)
        self._folder.cleanup()

    def expect(self, deliveries: int) -> None:
        """Announces the number of deliveries before a publication; ``met`` waits for them."""
        self._say(f"expect {deliveries}")

    def met(self, timeout: float = 60.0) -> Count:
        return self._event("met", timeout)

    def total(self) -> Count:
        self._say("total")
        return self._event("total", 60.0)

    def drained(self) -> Count:
        """The count once the server has closed every connection: nothing can come any more."""
        self._say("drain")
        return self._event("drained", 60.0)

    def _say(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def _event(self, name: str, timeout: float) -> Count:
        event = json.loads(self._line(name, timeout))
        if event["event"] != name:
            raise RuntimeError(f"the counter was to say {name!r} and said {event}")
        return Count(**{key: event.get(key, 0) for key in ("deliveries", "frames", "bytes", "first", "last")})

    def _line(self, name: str, timeout: float) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        while b"\n" not in self._read:
            if not select.select([self._process.stdout], [], [], timeout)[0]:
                self._say("total")
                so_far = os.read(self._process.stdout.fileno(), 65_536).decode().strip()
                raise RuntimeError(f"the counter has not said {name!r} for {timeout:g} seconds; it has {so_far}")
            part = os.read(self._process.stdout.fileno(), 65_536)
            if not part:
                raise RuntimeError(f"the counter ended before it said {name!r}")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line


def _save(file: Path, openings: Iterable[Opening]) -> int:
    connections = 0
    with file.open("wb") as out:
        for opening in openings:
            out.write(struct.pack("=II", opening.answers, len(opening.messages)))
            for message in opening.messages:
                out.write(struct.pack("=I", len(message)) + message)
            connections += 1
    return connections
