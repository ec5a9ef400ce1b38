"""Work that waits: a generator that yields seconds to sleep or a request to be answered, as a coroutine would."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tocsin.broker.upstream.effects import Effects, Lost, Pause, Refused
from tocsin.simulation.network.node import Node

#: Called with the result: a value, or an error.
Done = Callable[[Any, Exception | None], None]
#: Sends a request.
Request = Callable[[Done], None]
Work = Generator[float | Request, Any, Any]


class Process:
    """Runs one step at a time, until its node stops."""

    def __init__(self, node: Node, work: Work) -> None:
        self._node, self._life, self._work = node, node.life, work
        self._step(None, None)

    def _step(self, value: Any, error: Exception | None) -> None:
        try:
            step = self._work.send(value) if error is None else self._work.throw(error)
        except StopIteration:
            return
        if isinstance(step, float):
            self._node.later(step, self._step, None, None)
        else:
            step(self._answered)

    def _answered(self, value: Any, error: Exception | None) -> None:
        if self._life == self._node.life:
            self._node.take(self._step, value, error)


def run_effects(effects: Effects[Any], perform: Callable[[Any], float | Request]) -> Work:
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
