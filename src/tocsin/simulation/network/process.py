"""Production's effects on a simulated node: each pause is slept and each request sent, as asyncio would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.effects import Effects, Pause
from tocsin.errors import TocsinError
from tocsin.simulation.network.node import Node

#: Called with the result: a value, or an error.
Done = Callable[[Any, Exception | None], None]
#: Sends a request.
Request = Callable[[Done], None]


class Process:
    """Runs one step at a time, until its node stops. ``perform`` makes an effect a request. ``done`` gets the result;
    without it, an error is one of the node."""

    def __init__(
        self, node: Node, effects: Effects[Any], perform: Callable[[Any], Request], done: Done | None = None
    ) -> None:
        self._node, self._life, self._effects, self._perform = node, node.life, effects, perform
        self._done = done
        self._step(None, None)

    def _step(self, value: Any, error: Exception | None) -> None:
        try:
            effect = self._effects.send(value) if error is None else self._effects.throw(error)
        except StopIteration as end:
            if self._done is not None:
                self._done(end.value, None)
            return
        except TocsinError as trouble:
            if self._done is None:
                raise
            self._done(None, trouble)
            return
        if isinstance(effect, Pause):
            self._node.later(effect.seconds, self._step, None, None)
        else:
            self._perform(effect)(self._answered)

    def _answered(self, value: Any, error: Exception | None) -> None:
        if self._life == self._node.life:
            self._node.take(self._step, value, error)


def first(done: Done) -> Done:
    """Only the first result counts."""
    left = [done]

    def end(value: Any, error: Exception | None) -> None:
        if left:
            left.pop()(value, error)

    return end


def watched(effects: Effects[Any], learn: Callable[[Any, Any], Any]) -> Effects[Any]:
    """The same effects; ``learn`` sees each with its value, when the process gets it, and may put another in place."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            effect = effects.send(value) if error is None else effects.throw(error)
        except StopIteration as end:
            return end.value
        value = error = None
        try:
            value = learn(effect, (yield effect))
        except Exception as trouble:
            error = trouble
