"""Work that waits: a generator that yields seconds to sleep or a question to be answered, as a coroutine would."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tocsin.broker.upstream.effects import Effects, Lost, Pause, Refused
from tocsin.simulation.network.node import Node

#: Called with what came of it: a value, or an error.
Done = Callable[[Any, Exception | None], None]
#: Asks somebody something.
Question = Callable[[Done], None]
Work = Generator[float | Question, Any, Any]


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


def run_effects(effects: Effects[Any], perform: Callable[[Any], float | Question]) -> Work:
    """Production's effects as work: each is slept or asked here."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = effects.send(value) if error is None else effects.throw(error)
        except StopIteration as end:
            return end.value
        value = error = None
        try:
            value = yield effect.seconds if isinstance(effect, Pause) else perform(effect)
        except (Lost, Refused) as trouble:
            error = trouble
