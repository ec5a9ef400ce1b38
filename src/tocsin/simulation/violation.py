"""An invariant that does not hold."""

from __future__ import annotations

from msgspec import Struct


class Violation(Struct, frozen=True):
    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"
