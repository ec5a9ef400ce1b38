"""Seeds of random histories: a few in every run, more in ``make test-slow``."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(few: int, many: int) -> list[Any]:
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(few, many))]
