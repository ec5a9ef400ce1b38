"""Work that waits: a generator that yields seconds to sleep or a question to be answered, as a coroutine would."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

from tocsin.simulation.node import Node

#: Called with what came of it: a value, or an error.
Done = Callable[[Any, Exception | None], None]
#: Asks somebody something.
Question = Callable[[Done], None]
Work = Generator[float | Question, Any, Any]


class Lost(Exception):
    """No answer came."""


class Refused(Exception):
    """The answer was no. ``kind`` is what there is none of; ``first`` the first execution that is kept."""

    def __init__(self, why: str, kind: str = "", first: int = 0) -> None:
        super().__init__(why)
        self.kind = kind
        self.first = first


class Process:
    """Runs in the life of its node in which it was started, one step at a time."""

    def __init__(self, node: Node, work: Work) -> None:
        self._node, self._life, self._work = node, node.life, work
        self._step(None, None)

    def _step(self, value: Any, error: Exception | None) -> None:
        try:
            wish = self._work.send(value) if error is None else self._work.throw(error)
        except StopIteration:
            return
        if isinstance(wish, float):
            self._node.later(wish, self._step, None, None)
        else:
            wish(self._answered)

    def _answered(self, value: Any, error: Exception | None) -> None:
        if self._life == self._node.life:
            self._node.take(self._step, value, error)


def insist(ask: Callable[[], Question], rng: Random, least: float, most: float) -> Work:
    """Asks until there is an answer; a refusal is one. Waits double, and half of each is left to chance."""
    failures = 0
    while True:
        try:
            return (yield ask())
        except Lost:
            failures += 1
            yield min(most, least * 2.0 ** min(failures - 1, 20)) * rng.uniform(0.5, 1.0)
