"""Production's effects on a simulated node: each pause is slept and each request sent, as asyncio would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.broker.upstream.effects import Effects, Pause
from tocsin.simulation.network.node import Node

#: Called with the result: a value, or an error.
Done = Callable[[Any, Exception | None], None]
#: Sends a request.
Request = Callable[[Done], None]


class Process:
    """Runs one step at a time, until its node stops. ``perform`` makes an effect a request."""

    def __init__(self, node: Node, effects: Effects[Any], perform: Callable[[Any], Request]) -> None:
        self._node, self._life, self._effects, self._perform = node, node.life, effects, perform
        self._step(None, None)

    def _step(self, value: Any, error: Exception | None) -> None:
        try:
            effect = self._effects.send(value) if error is None else self._effects.throw(error)
        except StopIteration:
            return
        if isinstance(effect, Pause):
            self._node.later(effect.seconds, self._step, None, None)
        else:
            self._perform(effect)(self._answered)

    def _answered(self, value: Any, error: Exception | None) -> None:
        if self._life == self._node.life:
            self._node.take(self._step, value, error)
