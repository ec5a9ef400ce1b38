"""Examples of tests that take long: a few in every run, all of them in ``make test-slow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def few(items: Sequence[Any], count: int) -> list[Any]:
    """The first ``count`` in every run, the others in ``make test-slow`` only."""
    return [*items[:count], *(pytest.param(item, marks=pytest.mark.slow) for item in items[count:])]


def spread(items: Sequence[Any], every: int) -> list[Any]:
    """The first of ``every`` neighbours in every run, all of them in ``make test-slow``."""
    return [pytest.param(item, marks=pytest.mark.slow) if at % every else item for at, item in enumerate(items)]


def seeds(count: int, many: int) -> list[Any]:
    return few(range(many), count)


def examples(many: int) -> int:
    """Of Hypothesis: a fifth of them in every run, ``many`` in ``make test-slow``."""
    return many if settings.get_current_profile_name() == "explore" else -(-many // 5)
