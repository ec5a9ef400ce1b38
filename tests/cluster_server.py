"""The HTTP server of a data cluster in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tocsin.cluster.http.server import GRACE, Server
from tocsin.config import ClusterConfig
from tocsin.http.server import address, bind


@contextmanager
def serving(cluster: Any, config: ClusterConfig) -> Iterator[str]:
    """Yields the address; the caller starts and closes the cluster."""
    up = threading.Event()
    sock = bind(config.host, config.port)
    url = address(sock, tls=bool(config.tls_certificate))
    server = Server(cluster, config, sock, up.set)
    thread = threading.Thread(target=server.serve_until_stopped, name="tocsin-server", daemon=True)
    thread.start()
    try:
        while not up.wait(0.05):
            if not thread.is_alive():
                raise RuntimeError("the server did not start: see the log")
        yield url
    finally:
        server.should_exit = True
        thread.join(GRACE + 5)
