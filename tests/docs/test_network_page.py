"""The pages on networks of brokers: their commands run, against a coordinator and a broker of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
from broker_lab import broker
from pages import DOCS
from shell import Shell

from eventually import eventually
from sparkless import sparkless

sys.path.append(str(Path(__file__).parent.parent / "coordinator"))

from coordinator_lab import coordinator


def test_every_command_does_what_the_pages_say(tmp_path: Path) -> None:
    settings = {"interval": 0.2, "balance_every": 0.5}
    with (
        sparkless(tmp_path / "data") as (_, cluster),
        coordinator(tmp_path / "coordinator", **settings) as running,
        broker(tmp_path / "north", cluster, "north", "--coordinator", running.url) as north,
    ):
        eventually(lambda: httpx.get(running.url + "/topology", timeout=60).json()["brokers"])
        shell = Shell(cluster, north.url, tmp_path, running.url)
        try:
            assert shell.run_page(DOCS / "how-to" / "run-a-network.md") > 6
            assert shell.run_page(DOCS / "how-to" / "operate-a-network.md") > 4
        finally:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((tmp_path / "south.pid").read_text()), signal.SIGKILL)


def test_brokers_balance_among_themselves_as_the_page_says(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        ports = [str(sock.getsockname()[1]) for sock in free]
    with sparkless(tmp_path / "data") as (_, cluster):
        shell = Shell(cluster, "http://127.0.0.1:8481", tmp_path)
        shell.ports = dict(zip(("8491", "8492", "8591", "8592"), ports, strict=True))
        try:
            assert shell.run_page(DOCS / "how-to" / "run-without-a-coordinator.md") > 4
        finally:
            for name in ("east.pid", "west.pid"):
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int((tmp_path / name).read_text()), signal.SIGKILL)


def test_brokers_form_an_overlay_as_the_page_says(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(6)]
        ports = [str(sock.getsockname()[1]) for sock in free]
    with Shell("http://127.0.0.1:8480", "http://127.0.0.1:8481", tmp_path) as shell:
        shell.ports = dict(zip(("8491", "8492", "8493", "8591", "8592", "8593"), ports, strict=True))
        assert shell.run_page(DOCS / "how-to" / "connect-brokers.md") > 5
