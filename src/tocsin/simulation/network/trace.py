"""A readable log of a run, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

from tocsin.simulation.network.clock import Clock


class Trace:
    """Falsy when it is off, so that no line is formatted: ``if trace: trace.say(...)``."""

    def __init__(
        self, clock: Clock, on: bool = False, *, last: int | None = None, write: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._on = on
        self._write = write
        self._hash = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=last)

    def __bool__(self) -> bool:
        return self._on

    def say(self, who: str, what: str, whom: str = "") -> None:
        where = f"{who} → {whom}" if whom else who
        line = f"{self._clock.now:9.3f}  {where:<18} {what}"
        self._hash.update(line.encode() + b"\n")
        if self._write is not None:
            self._write(line)
        else:
            self.lines.append(line)

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()
