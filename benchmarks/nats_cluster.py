"""Three servers of NATS with routes between them, and one connection that publishes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.fanout import processes, wire
from benchmarks.fanout.debian import binary

SERVERS = 3


class NatsCluster:
    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self._held = folder, held
        self._binary = binary("nats-server")
        self.version = self._binary.version("--version")
        ports = processes.free_ports(3 * SERVERS)
        self.ports, self._routes, self._insides = ports[:SERVERS], ports[SERVERS : 2 * SERVERS], ports[2 * SERVERS :]
        self.running: list[subprocess.Popen[bytes] | None] = [None] * SERVERS
        self._publisher: socket.socket | None = None
        self._publishing = threading.Lock()
        self.at = 0
        for number in range(SERVERS):
            self.launch(number)
        for number in range(SERVERS):
            self.ready(number)
        self.publish_at(0)

    def launch(self, number: int) -> None:
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        configuration = self.folder / f"nats{number}.conf"
        configuration.write_text(
            f'server_name: "n{number}"\nlisten: "127.0.0.1:{self.ports[number]}"\n'
            f'http: "127.0.0.1:{self._insides[number]}"\n'
            f'cluster {{ name: "c", listen: "127.0.0.1:{self._routes[number]}", routes: [{routes}] }}\n'
        )
        command = processes.bound([self._binary.path, "-c", str(configuration)], None)
        with (self.folder / f"nats{number}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._binary.environment())
        self._held.callback(processes.end, process)
        self.running[number] = process

    def ready(self, number: int, timeout: float = 30.0) -> None:
        """It answers, and has routes to all others that run."""
        others = sum(process is not None for process in self.running) - 1
        end = time.monotonic() + timeout
        while True:
            try:
                if len({route["remote_id"] for route in self._inside(number, "routez")["routes"]}) >= others:
                    return
            except OSError:
                pass
            if time.monotonic() > end:
                raise RuntimeError(f"NATS did not start: {(self.folder / f'nats{number}.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, number: int, kill: bool = False) -> None:
        """The publisher connects elsewhere first, so that only messages on the way to subscribers are lost."""
        if self.at == number:
            self.publish_at((number + 1) % SERVERS)
        process = self.running[number]
        assert process is not None
        process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        process.wait(60)
        self.running[number] = None

    def connections(self) -> list[int]:
        """Subscribers at each server that runs."""
        found = {n: self._inside(n, "varz")["connections"] for n, each in enumerate(self.running) if each is not None}
        return [count - (number == self.at) for number, count in found.items()]

    def publish_at(self, number: int) -> None:
        made = socket.create_connection(("127.0.0.1", self.ports[number]), 5.0)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(wire.NATS_CONNECT)
        with self._publishing:
            old, self._publisher, self.at = self._publisher, made, number
        if old is not None:
            old.close()
        self._held.callback(made.close)

    def publish(self, messages: dict[str, Any]) -> None:
        """Returns when the server has received them."""
        parts = [wire.nats_publish(topic.encode(), json.dumps(row).encode()) for topic, row in messages.items()]
        with self._publishing:
            assert self._publisher is not None
            self._publisher.sendall(b"".join(parts) + b"PING\r\n")
            received = b""
            while b"PONG\r\n" not in received:
                part = self._publisher.recv(65_536)
                if not part:
                    raise RuntimeError("NATS has cut off the one that publishes")
                received += part
                if b"PING\r\n" in part:
                    self._publisher.sendall(b"PONG\r\n")

    def _inside(self, number: int, what: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._insides[number]}/{what}", timeout=10) as answer:
            return json.load(answer)
