"""Real broker processes for tests; a killed one can be restarted on its port."""

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

    def __init__(self, home: Path, cluster: str, name: str = "b", *options: str, **settings: Any) -> None:
        self._command = [sys.executable, "-m", "tocsin.cli", "broker", "--json", "--name", name, "--cluster", cluster]
        self._command += ["--home", str(home), *options]
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
        variables = {f"TOCSIN_BROKER_{key.upper()}": text for key, text in texts.items()}
        self._env = environment(**variables)
        self.facts: dict[str, Any] = {}
        self.killed = False
        self._launch([] if "--port" in options else ["--port", "0"])

    def _launch(self, more: list[str]) -> None:
        self.process = subprocess.Popen(
            [*self._command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._env
        )

    def start(self) -> None:
        """Restarts the broker on its previous port."""
        self.killed = False
        self._launch(["--port", str(self.port)])
        self.event("ready")

    def event(self, name: str) -> dict[str, Any]:
        """Waits for this event of the broker."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == name:
                self.facts = event
                return event
        assert self.process.stderr is not None
        raise AssertionError(f"it ended before {name}: {self.process.stderr.read().decode()}")

    @property
    def url(self) -> str:
        return str(self.facts["url"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        # Set before the signal: another thread may wait for the end while the test continues here.
        self.killed = True
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def end(self) -> None:
        """Stops the broker like an operator; it must end without errors."""
        self.process.terminate()
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        assert self.process.wait(120) == 0, errors
        self._close()

    def _close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def broker(home: Path, cluster: str, name: str = "b", *options: str, **settings: Any) -> Iterator[Broker]:
    running = Broker(home, cluster, name, *options, **settings)
    try:
        running.event("ready")
        yield running
    finally:
        if not running.killed and running.process.poll() is None:
            running.end()
