"""Lets a test wait for the work of another process."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")
#: Only a failing test waits this long.
LONGEST = 300.0


def eventually(ask: Callable[[], T], condition: Callable[[T], object] = bool) -> T:
    """Asks until the answer meets the condition, and returns the answer."""
    end = time.monotonic() + LONGEST
    while not condition(answer := ask()):
        assert time.monotonic() < end, f"after {LONGEST:g} s it is still {answer!r}"
        Event().wait(0.02)
    return answer
