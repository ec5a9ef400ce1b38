"""The pages on networks of brokers: their commands run, against a coordinator and a broker of their own."""

from __future__ import annotations

import contextlib
import os
import signal
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
