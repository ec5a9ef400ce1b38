"""Messages in readable form, for the trace."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.wire.frames import payloads


def spoken(data: bytes, *, framed: bool = True) -> str:
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
    inside = " ".join(f"{name}={_short(value)}" for name, value in shown.items())
    return f"{kind} {inside}".rstrip()


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 40 else text[:37] + "…"
