"""Requests of a broker as effects: they get lost, or are refused."""

from __future__ import annotations

from random import Random
from typing import Any

from tocsin.broker.core.events import Problem
from tocsin.broker.core.instructions import Command
from tocsin.effects import Effects, Pause
from tocsin.wire.backoff import Backoff

#: Shortest and longest seconds between two requests, while there is no answer.
RETRY = (0.1, 5.0)


class Lost(Exception):
    """No answer came, or an unreadable one: the request may have been carried out all the same."""


class Refused(Exception):
    """The answer was no, and ``error`` says why."""

    def __init__(self, error: dict[str, Any], status: int = 404) -> None:
        super().__init__(error.get("message", f"status {status}"))
        self.error = error
        self.status = status

    @property
    def problem(self) -> Problem:
        error = self.error
        message = str(error.get("message", ""))
        if "line" in error and "column" in error:
            message += f" (line {error['line']}, column {error['column']})"
        return Problem(str(error.get("code", "refused")), message, str(error.get("hint", "")))

    def no(self, kind: str) -> bool:
        """Whether it says that something of this kind does not exist."""
        return self.status == 404 and self.error.get("kind") == kind


def retry(command: Command, rng: Random) -> Effects[Any]:
    """Asks until there is an answer, after pauses that grow; a refusal is an answer."""
    waits = Backoff(rng, *RETRY)
    while True:
        try:
            return (yield command)
        except Lost:
            yield Pause(waits.next())
