"""A small HTTP server with a scripted answer; it keeps the requests that it received."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar


class ScriptedHandler(BaseHTTPRequestHandler):
    answer: ClassVar[tuple[int, bytes]] = (200, b"")
    received: ClassVar[list[tuple[str, object]]] = []

    def do_POST(self) -> None:
        self.received.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
        status, body = self.answer
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def scripted_server() -> Iterator[str]:
    """Yields its address."""
    ScriptedHandler.received.clear()
    with HTTPServer(("127.0.0.1", 0), ScriptedHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
