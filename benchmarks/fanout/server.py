"""What a server must offer to take part in the fan-out benchmark."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks import peers
from benchmarks.fanout import cases, processes
from benchmarks.fanout.counter import Endpoint, Opening

ROOT = Path(__file__).parents[2]


class Server:
    """A server on its core. To add one, write a subclass and put it into ``servers.ALL``.

    A subclass defines:

    - ``name``: its row in the tables.
    - ``start()``: starts the process with ``self.launch(command)`` and returns once it takes connections. A program of
      our own prints ``ready PORT`` as its first line, which ``self.read_port()`` waits for; it ends with its stdin.
    - ``endpoint``: the port, and how the counter connects: for a WebSocket the path and the subprotocol; ``answer``,
      the bytes that occur once in the answer to each opening message; ``marker``, the bytes that occur exactly once in
      each delivery, wherever frames begin and end (the payload of ``cases`` holds ``cases.MARKER``).
    - ``opening(number, topics)``: what connection ``number`` sends to subscribe to these topics, as a list of messages
      (over a WebSocket each becomes a masked text frame), and how many answers it waits for. They go out at once.
    - ``publish(topics)``: makes the server deliver one message of 300 bytes to all subscribers of each of these topics;
      one topic is a message by itself, sixteen are a burst and should reach the server together. It need not wait.

    ``cpu()`` and ``resident()`` cover the started process and its descendants; a server made of several processes of
    which only one counts (a broker, but not the data cluster that feeds it) overrides ``pid``. ``stop()`` must leave
    no process and no file, and is called in any case, even after ``start()`` has failed.

    Nothing but the messages published may hold the marker once the counter is ready: the counts have to be exact.
    """

    name: str

    def __init__(self, core: int | None = processes.SERVER_CORE) -> None:
        self.core = core
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        raise NotImplementedError

    @property
    def note(self) -> str:
        """A note for the tables: its version, how it was set up."""
        return ""

    @property
    def endpoint(self) -> Endpoint:
        raise NotImplementedError

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        raise NotImplementedError

    def publish(self, topics: Sequence[int]) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        if self.process is not None:
            processes.end(self.process)
            self.process = None

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def cpu(self) -> float:
        return peers.family_cpu(self.pid)

    def resident(self) -> int:
        return processes.resident(self.pid)

    def launch(self, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any) -> None:
        """``options`` are those of ``subprocess.Popen``."""
        quiet: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        self.process = subprocess.Popen(processes.bound(command, self.core), env=environment, **quiet | options)

    def read_port(self, timeout: float = 60.0) -> int:
        assert self.process is not None and self.process.stdout is not None
        said, end = b"", time.monotonic() + timeout
        while not said.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise RuntimeError(f"{self.name} was not ready within {timeout:g} seconds")
            part = os.read(self.process.stdout.fileno(), 1)
            if not part:
                raise RuntimeError(f"{self.name} ended before it was ready")
            said += part
        word, _, port = said.decode().strip().partition(" ")
        if word != "ready" or not port.isdigit():
            raise RuntimeError(f"{self.name} said {said!r} instead of `ready PORT`")
        return int(port)


class CommandServer(Server):
    """A program of our own: prints ``ready PORT``, reads topic numbers as messages, and publishes on commands of stdin.

    Its stdin is a TCP connection, as the other servers get their publications over TCP.
    """

    path = "/"

    def command(self) -> list[str]:
        raise NotImplementedError

    def stdin(self) -> tuple[BinaryIO, BinaryIO]:
        """The end for writing commands, and the end for reading them."""
        return processes.connection()

    def start(self) -> None:
        self._publisher, stdin = self.stdin()
        with stdin:
            self.launch(self.command(), cwd=ROOT, stdin=stdin)
        self._port = self.read_port()

    def stop(self) -> None:
        super().stop()
        if hasattr(self, "_publisher"):
            self._publisher.close()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self._port, cases.MARKER, b"ok", path=self.path)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        return Opening([b"%d" % topic for topic in topics], len(topics))

    def publish(self, topics: Sequence[int]) -> None:
        self._publisher.write(b"publish " + b" ".join(b"%d" % topic for topic in topics) + b"\n")
