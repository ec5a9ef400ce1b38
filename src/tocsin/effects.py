"""Effects: generators that yield what they need, such as a pause or a request, and are sent its outcome.

Nothing here waits or does I/O. asyncio runs the effects in production, and the simulator under its own clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")
Effects = Generator[Any, Any, T]


class Pause(Struct, frozen=True):
    seconds: float


async def run_effects(effects: Effects[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    """An error of ``perform`` is the outcome of its effect. If the caller is cancelled, the generator is closed."""
    value: Any = None
    error: Exception | None = None
    try:
        while True:
            effect = effects.send(value) if error is None else effects.throw(error)
            value = error = None
            try:
                value = await perform(effect)
            except Exception as trouble:
                error = trouble
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        effects.close()
