"""Examples of tests that take long: a few in every run, all of them in ``make test-slow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def few(items: Sequence[Any], count: int) -> list[Any]:
    """The first ``count`` in every run, the others in ``make test-slow`` only."""
    return [*items[:count], *(pytest.param(item, marks=pytest.mark.slow) for item in items[count:])]


def seeds(count: int, many: int) -> list[Any]:
    return few(range(many), count)
