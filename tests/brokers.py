"""Real broker processes for tests; one that was killed can be started again on its port."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from served import environment


class Broker:
    """A running ``tocsin broker``."""

    def __init__(self, cluster: str, home: Path, name: str = "b", **settings: Any) -> None:
        self._options = ["--json", "--name", name, "--cluster", cluster, "--home", str(home)]
        self._env = environment(
            **{f"TOCSIN_BROKER_{key.upper()}": json.dumps(value) for key, value in settings.items()}
        )
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tocsin.cli", "broker", *self._options, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, env=self._env)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if said["event"] == "ready":
                self.url = said["url"]
                self.port = int(self.url.rpartition(":")[2])
                return
        raise AssertionError(f"the broker ended with {self._process.wait()}")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._gone()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._gone()

    def _gone(self) -> None:
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def broker_process(cluster: str, home: Path, name: str = "b", **settings: Any) -> Iterator[Broker]:
    found = Broker(cluster, home / name, name, **settings)
    try:
        yield found
    finally:
        found.end()
