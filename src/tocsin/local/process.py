"""One process of the town: what it says on its standard output is heard, what it logs goes to a file."""

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

from tocsin.errors import SystemTrouble, TocsinError, UserError

#: Seconds that a process has to end by itself.
PATIENCE = 20.0
#: Lines of its log that are told when a part did not start.
LAST_WORDS = 5


class PartProcess:
    """``begin`` again after an end starts a new process. ``ended`` is called whenever one has ended."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        log: Path,
        env: dict[str, str],
        ended: Callable[[PartProcess, int], None],
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self.words = list(words)
        self.log = log
        self.env = env
        self.url = ""
        self.began = 0.0
        self._ended = ended
        self._patience = patience
        self._process: asyncio.subprocess.Process | None = None
        self._said: dict[str, dict[str, Any]] = {}
        self._news = asyncio.Condition()
        self._listening: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def heard(self) -> set[str]:
        """What the present process has said."""
        return set(self._said)

    async def begin(self) -> None:
        self.began = time.monotonic()
        self._said = {}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.words,
                stdin=asyncio.subprocess.PIPE,  # held, so that it ends when this process does
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.env, "TOCSIN_STARTED": "1"},
                # A Ctrl-C is for the town, which then ends its parts.
                start_new_session=True,
            )
        self._listening = asyncio.create_task(self._listen(self._process))

    async def said(self, event: str) -> dict[str, Any]:
        """Waits until it says so. Raises what it says if it ends before."""
        async with self._news:
            await self._news.wait_for(lambda: event in self._said or not self.running)
        if event not in self._said:
            raise self.trouble()
        return self._said[event]

    def trouble(self) -> TocsinError:
        """Why it ended, in its own words."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        for line in reversed(lines[-LAST_WORDS:]):
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
                problem = msgspec.json.decode(line)["error"]
                return UserError(f"{self.name}: {problem['message']}", hint=problem.get("hint", ""))
        words = "\n".join(lines[-LAST_WORDS:])
        return SystemTrouble(f"{self.name} did not start", hint=f"its log is {self.log}\n{words}".rstrip())

    def kill(self) -> None:
        """At once, with all that it has started."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Asks it to end, and sees to it that it does."""
        if self._process is None:
            return
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        if self._listening is not None:
            await self._listening

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
                said = msgspec.json.decode(line)
                async with self._news:
                    self._said[said["event"]] = said
                    self.url = said.get("url", self.url)
                    self._news.notify_all()
        code = await process.wait()
        async with self._news:
            self._news.notify_all()
        self._ended(self, code)
