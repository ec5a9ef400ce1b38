"""One child process: the events that it prints on its standard output are read, its log goes to a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tocsin.errors import SystemFailure, TocsinError, UserError

#: Seconds that a process has to end by itself.
GRACE = 20.0
#: Lines of the log that the error shows when a process did not start.
LAST_LINES = 5


class ChildProcess:
    """``start`` after an end starts a new process. ``ended`` is called whenever one has ended."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        env: dict[str, str],
        ended: Callable[[ChildProcess, int], None],
        grace: float = GRACE,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.env = env
        self.url = ""
        self.started = 0.0
        self._ended = ended
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._events: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def events(self) -> set[str]:
        """The events that the current process has printed."""
        return set(self._events)

    async def start(self) -> None:
        self.started = time.monotonic()
        self._events = {}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,  # kept open, so that the child ends when this process does
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.env, "TOCSIN_STARTED": "1"},
                # Ctrl-C reaches this process only, which then stops its children.
                start_new_session=True,
            )
        self._reader = asyncio.create_task(self._read(self._process))

    async def wait_for(self, event: str) -> dict[str, Any]:
        """Waits until the process prints this event. Raises the process's own error if it ends before."""
        async with self._changed:
            await self._changed.wait_for(lambda: event in self._events or not self.running)
        if event not in self._events:
            raise self.error()
        return self._events[event]

    def error(self) -> TocsinError:
        """Why it ended, from its log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        for line in reversed(lines[-LAST_LINES:]):
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
                problem = msgspec.json.decode(line)["error"]
                return UserError(f"{self.name}: {problem['message']}", hint=problem.get("hint", ""))
        text = "\n".join(lines[-LAST_LINES:])
        return SystemFailure(f"{self.name} did not start", hint=f"its log is {self.log}\n{text}".rstrip())

    def kill(self) -> None:
        """At once, with all its children."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Asks it to end, and kills it if it does not."""
        if self._process is None:
            return
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        if self._reader is not None:
            await self._reader

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
                event = msgspec.json.decode(line)
                async with self._changed:
                    self._events[event["event"]] = event
                    self.url = event.get("url", self.url)
                    self._changed.notify_all()
        code = await process.wait()
        async with self._changed:
            self._changed.notify_all()
        self._ended(self, code)
