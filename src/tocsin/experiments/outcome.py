"""Our results beside the paper's claims, and a verdict that a reader can check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import fmean, pstdev
from typing import Any

from tocsin.experiments.chart import Chart


class Verdict(Enum):
    REPRODUCED = "reproduced"
    DIRECTION = "direction only"
    NOT = "not reproduced"


@dataclass(frozen=True)
class Spread:
    """One figure of every seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def deviation(self) -> float:
        return pstdev(self.values)

    def __str__(self) -> str:
        """One value has no spread."""
        return f"{number(self.mean)} ± {number(self.deviation)}" if len(self.values) > 1 else number(self.mean)


def number(value: float) -> str:
    """Three significant digits, thousands separated; the caller chooses the unit."""
    if value == 0:
        return "0"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


@dataclass(frozen=True)
class Check:
    """One sentence of the claim. ``holds`` has a value per seed; ``direction``: the sentence is essential."""

    says: str
    found: str
    holds: tuple[bool, ...]
    direction: bool = True

    @property
    def often(self) -> str:
        if len(self.holds) == 1:
            return "in one run" if self.mostly else "not in one run"
        return f"{sum(self.holds)} of {len(self.holds)} seeds"

    @property
    def mostly(self) -> bool:
        return sum(self.holds) * 5 >= len(self.holds) * 4

    @property
    def half(self) -> bool:
        return sum(self.holds) * 2 >= len(self.holds)


def judge(checks: Sequence[Check]) -> Verdict:
    """Reproduced: every sentence holds in four of five seeds. Direction only: the essential ones hold in half."""
    if all(check.mostly for check in checks):
        return Verdict.REPRODUCED
    if all(check.half for check in checks if check.direction):
        return Verdict.DIRECTION
    return Verdict.NOT


@dataclass
class Outcome:
    """One reproduced figure. ``rows``: one row of numbers per variant; ``data``: all samples, for Parquet."""

    id: str
    title: str
    claim: str
    checks: list[Check]
    columns: list[str]
    rows: list[list[str]]
    charts: list[Chart]
    remarks: list[str] = field(default_factory=list)
    data: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return judge(self.checks)
