"""A readable log of a run, and its fingerprint."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.simulation.network.clock import Clock
from tocsin.wire.frames import payloads


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


def spoken(data: bytes, *, framed: bool = True) -> str:
    """Messages in readable form."""
    texts = [text for _, text in payloads(data)] if framed else [data]
    return "; ".join(_one(each) for text in texts for each in _messages(text))


def _messages(text: bytes) -> list[dict[str, Any]]:
    found = msgspec.json.decode(text)
    return found if isinstance(found, list) else [found]


def _one(message: dict[str, Any]) -> str:
    kind = message.get("type", "?")
    if kind == "notify":
        return f"notify #{message['subscription']} {message['channel']}/{message['execution']}"
    shown = {name: value for name, value in message.items() if name not in ("type", "id", "agent", "frame_bytes")}
    if "ticket" in shown:
        shown["ticket"] = shown["ticket"][-6:]
    if "token" in shown:
        shown["token"] = "…"  # like no other in every run
    inside = " ".join(f"{name}={_short(value)}" for name, value in shown.items())
    return f"{kind} {inside}".rstrip()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else text[:37] + "…"
