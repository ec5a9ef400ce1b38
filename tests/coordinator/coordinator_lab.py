"""A real coordinator process, for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from served import environment


class Coordinator:
    """A process that can be killed and started again on the same port."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.home, self.port, self.settings = home, 0, settings
        settings |= {f"limits_{key}": it for key, it in settings.pop("limits", {}).items()}
        texts = {key: it if isinstance(it, str) else json.dumps(it) for key, it in settings.items()}
        self._env = environment(**{f"TOCSIN_COORDINATOR_{key.upper()}": text for key, text in texts.items()})
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tocsin.cli", "coordinator", "--json", "--home", str(self.home)]
        command += ["--port", str(self.port)]
        self.killed = False
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=self._env)
        assert self.process.stdout is not None
        self.url = str(json.loads(self.process.stdout.readline())["url"])
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        # Set before the signal: another thread may wait for the killed process while the test goes on here.
        self.killed = True
        self.process.kill()
        self._wait()

    def end(self) -> int:
        """Stops the process as an operator does."""
        self.process.terminate()
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def coordinator(home: Path, **settings: Any) -> Iterator[Coordinator]:
    running = Coordinator(home, **settings)
    try:
        yield running
    finally:
        if not running.killed and running.process.poll() is None:
            assert running.end() == 0
