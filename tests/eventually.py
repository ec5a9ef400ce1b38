"""Waiting in tests for what another process does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

T = TypeVar("T")
#: Only a test that fails waits for so long.
LONGEST = 300.0


def eventually(ask: Callable[[], T], true: Callable[[T], object] = bool) -> T:
    """Asks until the answer is ``true``; the answer."""
    end = time.monotonic() + LONGEST
    while not true(answer := ask()):
        assert time.monotonic() < end, f"after {LONGEST:g} s it is still {answer!r}"
        Event().wait(0.02)
    return answer
