"""Work in steps: generators that yield what they need, a pause or a request, and are sent what came of it.

Nothing here waits or speaks. asyncio walks the steps in production, and the simulator under a clock of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from tocsin.broker.core.events import Problem
from tocsin.wire.backoff import backoff

T = TypeVar("T")
Steps = Generator[Any, Any, T]


class Pause(Struct, frozen=True):
    seconds: float


class Lost(Exception):
    """No answer came, or none that says anything: it may have been done all the same."""


class Refused(Exception):
    """The answer was no, and ``error`` says why."""

    def __init__(self, error: dict[str, Any], status: int = 404) -> None:
        super().__init__(error.get("message", f"status {status}"))
        self.error = error
        self.status = status

    @property
    def problem(self) -> Problem:
        error = self.error
        return Problem(str(error.get("code", "refused")), str(error.get("message", "")), str(error.get("hint", "")))

    def no(self, kind: str) -> bool:
        """Whether it says that there is none of this kind by that name."""
        return self.status == 404 and self.error.get("kind") == kind


def insist(request: Any, least: float, most: float, rng: Random) -> Steps[Any]:
    """Asks until there is an answer; a refusal is one."""
    failures = 0
    while True:
        try:
            return (yield request)
        except Lost:
            failures += 1
            yield Pause(backoff(failures, least, most, rng))


async def walk(steps: Steps[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            wish = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as end:
            found: T = end.value
            return found
        value = error = None
        try:
            value = await perform(wish)
        except (Lost, Refused) as trouble:
            error = trouble
