"""Servers of the fan-out benchmark whose subscribers connect with TLS; publications come without it."""

from __future__ import annotations

import socket
import ssl
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.fanout.broker import Notifier, Tocsin
from benchmarks.fanout.counter import Endpoint
from benchmarks.fanout.server import ROOT
from benchmarks.fanout.servers import Nats, Redis

# The certificates are made as for tests.
sys.path.insert(0, str(ROOT / "tests"))


@cache
def files() -> dict[str, str]:
    """Of one certificate for all servers, until this process ends."""
    from certificates import Authority

    held = tempfile.TemporaryDirectory(prefix="tocsin-tls-")
    files.held = held  # type: ignore[attr-defined]
    return Authority(Path(held.name)).issue("bench")


class TlsNotifier(Notifier):
    """The broker has one certificate for both of its ports."""

    def connect(self, port: int) -> socket.socket:
        context = ssl.create_default_context(cafile=files()["tls_ca"])
        return context.wrap_socket(super().connect(port), server_hostname="localhost")

    def receive(self, wait: bool) -> bytes:
        self._socket.setblocking(wait)
        try:
            return self._socket.recv(65_536)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        finally:
            self._socket.setblocking(True)


class TlsTocsin(Tocsin):
    name = "Tocsin, TLS"
    note = "With TLS the broker writes through the event loop, which encrypts for each connection"
    notifier = TlsNotifier

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings, **files())

    @property
    def endpoint(self) -> Endpoint:
        return replace(super().endpoint, tls=True)


class TlsRedis(Redis):
    name = "Redis, TLS"

    def command(self, folder: Path) -> list[str]:
        plain, port = self.inner, self.port
        self.port = plain
        words = super().command(folder)
        self.inner, self.port = plain, port
        tls = files()
        settings = {"tls-port": port, "tls-cert-file": tls["tls_certificate"], "tls-key-file": tls["tls_key"]}
        settings |= {"tls-ca-cert-file": tls["tls_ca"], "tls-auth-clients": "no"}
        return [*words, *(word for name, value in settings.items() for word in (f"--{name}", str(value)))]

    @property
    def endpoint(self) -> Endpoint:
        return replace(super().endpoint, tls=True)


class TlsNats(Nats):
    name = "NATS, TLS"

    def command(self, folder: Path) -> list[str]:
        words = super().command(folder)
        file, tls = folder / "nats.conf", files()
        certificate = f'tls {{ cert_file: "{tls["tls_certificate"]}", key_file: "{tls["tls_key"]}" }}'
        file.write_text(file.read_text().replace("no_tls: true", certificate))
        return words

    @property
    def endpoint(self) -> Endpoint:
        return replace(super().endpoint, tls=True)
