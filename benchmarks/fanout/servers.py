"""The servers of the fan-out benchmark."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from benchmarks.fanout import cases, processes, wire
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.compiler import program
from benchmarks.fanout.counter import Endpoint, Opening
from benchmarks.fanout.debian import Binary, binary
from benchmarks.fanout.server import CommandServer, Server


class Limit(CommandServer):
    """A C program that writes ready frames, one write(2) each."""

    name = "C, plain"
    mode = "plain"

    def command(self) -> list[str]:
        return [str(program("limit")), self.mode, cases.PAYLOAD.decode()]


class PipedLimit(Limit):
    """Shows the cost of reading TCP, which every server on a network has."""

    name = "C, plain, commands over a pipe"

    def stdin(self) -> tuple[BinaryIO, BinaryIO]:
        reading, writing = os.pipe()
        return os.fdopen(writing, "wb", 0), os.fdopen(reading, "rb", 0)


class CoalescedLimit(Limit):
    name = "C, coalesced"
    mode = "coalesced"


class Bare(CommandServer):
    """The same in Python: the difference to the broker is what the broker can gain."""

    name = "bare uvloop"

    @property
    def note(self) -> str:
        return (
            f"bare uvloop: Python {sys.version.split()[0]} on uvloop {version('uvloop')} that writes ready frames with "
            "write(2) and does nothing else, coalesced in bursts: the limit of the language"
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.fanout.bare", cases.PAYLOAD.decode()]


class Broadcast(CommandServer):
    """The ``websockets`` library."""

    name = "websockets broadcast"

    @property
    def note(self) -> str:
        return (
            f"websockets {version('websockets')} on uvloop {version('uvloop')}, no compression, no pings; "
            "from uvloop 0.23 on each of its writes is a system call"
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.fanout.broadcast", cases.PAYLOAD.decode()]


class Packaged(Server):
    """A server from a Debian package, with a folder of its own; published to over plain TCP."""

    program: str
    version_option = "--version"

    def __init__(self, core: int | None = processes.SERVER_CORE) -> None:
        super().__init__(core)
        self._folder: Path | None = None
        self._publisher: socket.socket | None = None
        self._binary: Binary | None = None

    def find(self) -> Binary:
        return binary(self.program)

    def command(self, folder: Path) -> list[str]:
        """What to run, without the program; may write a configuration into the folder."""
        raise NotImplementedError

    def hello(self) -> bytes:
        """What the publisher's connection begins with."""
        return b""

    def message(self, topic: bytes) -> bytes:
        """One publication."""
        raise NotImplementedError

    def start(self) -> None:
        self._binary = self.find()
        self._folder = Path(tempfile.mkdtemp(prefix=f"tocsin-{self.program}-"))
        self.port, self.inner = processes.free_ports(2)
        log = (self._folder / "log").open("wb")
        with log:
            command = [self._binary.path, *self.command(self._folder)]
            self.launch(command, self._binary.environment(), stdin=None, stdout=log, stderr=log, cwd=self._folder)
        for port in {self.inner, self.port}:
            self._connected(port).close()
        self._publisher = self._connected(self.inner)
        self._publisher.sendall(self.hello())

    def publish(self, topics: Sequence[int]) -> None:
        assert self._publisher is not None
        try:
            # Answers to earlier publications do not matter, but must not pile up.
            while self._publisher.recv(1 << 20, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            pass
        self._publisher.sendall(b"".join(self.message(b"t%d" % topic) for topic in topics))

    def stop(self) -> None:
        super().stop()
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def note(self) -> str:
        return f"{self.name} {self.find().version(self.version_option)}{self.settings}"

    settings = ""

    def _connected(self, port: int, timeout: float = 30.0) -> socket.socket:
        assert self.process is not None and self._folder is not None
        end = time.monotonic() + timeout
        while self.process.poll() is None and time.monotonic() < end:
            try:
                made = socket.create_connection(("127.0.0.1", port), 5.0)
            except OSError:
                time.sleep(0.02)
                continue
            made.settimeout(None)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        raise RuntimeError(f"{self.name} did not start:\n{(self._folder / 'log').read_text(errors='replace')[-2000:]}")


class Redis(Packaged):
    name = "Redis"
    program = "redis-server"
    settings = ", pub/sub over TCP, nothing kept on disk, no bound on output buffers"

    def command(self, folder: Path) -> list[str]:
        self.inner = self.port
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": folder,
            "save": "",
            "appendonly": "no",
            "maxclients": 19_900,
            "tcp-backlog": 4096,
        }
        words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
        return [*words, "--client-output-buffer-limit", "pubsub", "0", "0", "0"]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.port, cases.MARKER, b"$9\r\nsubscribe\r\n")

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        return Opening([wire.redis_subscribe([b"t%d" % topic for topic in topics])], len(topics))

    def message(self, topic: bytes) -> bytes:
        return wire.redis_publish(topic, cases.PAYLOAD)


class Nats(Packaged):
    name = "NATS"
    program = "nats-server"
    settings = " over WebSocket, no compression"

    def command(self, folder: Path) -> list[str]:
        (folder / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.inner}"\n'
            f'websocket {{ listen: "127.0.0.1:{self.port}", no_tls: true, compression: false }}\n'
            'max_connections: 64000\nping_interval: "1h"\n'
        )
        return ["-c", str(folder / "nats.conf")]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.port, cases.MARKER, b"PONG\r\n", path="/", binary=True)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        return Opening([wire.nats_subscribe([b"t%d" % topic for topic in topics])], 1)

    def hello(self) -> bytes:
        return wire.NATS_CONNECT

    def message(self, topic: bytes) -> bytes:
        return wire.nats_publish(topic, cases.PAYLOAD)


class NatsTcp(Nats):
    name = "NATS, TCP"
    settings = ""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.inner, cases.MARKER, b"PONG\r\n")


class Mosquitto(Packaged):
    name = "mosquitto"
    program = "mosquitto"
    version_option = "-h"
    settings = " over WebSocket, QoS 0, nothing kept on disk"

    def command(self, folder: Path) -> list[str]:
        lines = [
            *(["user root"] if os.geteuid() == 0 else []),
            "allow_anonymous true",
            "persistence false",
            "log_type error",
            "set_tcp_nodelay true",
            f"listener {self.inner} 127.0.0.1",
            f"listener {self.port} 127.0.0.1",
            "protocol websockets",
        ]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return ["-c", str(folder / "mosquitto.conf")]

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.port, cases.MARKER, wire.MQTT_SUBSCRIBED, path="/mqtt", subprotocol="mqtt", binary=True)

    def opening(self, number: int, topics: Sequence[int]) -> Opening:
        names = [b"t%d" % topic for topic in topics]
        return Opening([wire.mqtt_connect(b"c%d" % number) + wire.mqtt_subscribe(names)], len(topics))

    def hello(self) -> bytes:
        return wire.mqtt_connect(b"publisher")

    def message(self, topic: bytes) -> bytes:
        return wire.mqtt_publish(topic, cases.PAYLOAD)


#: In the order of the tables; the limits come first.
ALL: list[type[Server]] = [
    Limit,
    PipedLimit,
    CoalescedLimit,
    Bare,
    Tocsin,
    Redis,
    Nats,
    Mosquitto,
    Broadcast,
]
