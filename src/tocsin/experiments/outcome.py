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
    NO_EFFECT = "no effect to show"
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
    """One sentence of the claim. ``holds`` has a value per seed, None where the seed has no effect to show;
    ``direction``: the sentence is essential; ``setup``: it tests the input, and no verdict depends on it."""

    says: str
    found: str
    holds: tuple[bool | None, ...]
    direction: bool = True
    setup: bool = False

    @property
    def shown(self) -> list[bool]:
        """Of the seeds that have an effect to show."""
        return [each for each in self.holds if each is not None]

    @property
    def often(self) -> str:
        if len(self.shown) == len(self.holds) == 1:
            return "in one run" if self.mostly else "not in one run"
        if not self.shown:
            return "no seed has an effect to show"
        suitable = "" if len(self.shown) == len(self.holds) else " with an effect to show"
        return f"{sum(self.shown)} of {len(self.shown)} seeds{suitable}"

    @property
    def mostly(self) -> bool:
        return bool(self.shown) and sum(self.shown) * 5 >= len(self.shown) * 4

    @property
    def half(self) -> bool:
        return bool(self.shown) and sum(self.shown) * 2 >= len(self.shown)

    @property
    def showable(self) -> bool:
        """Most seeds have an effect to show."""
        return len(self.shown) * 2 > len(self.holds)


def judge(checks: Sequence[Check]) -> Verdict:
    """Reproduced: every sentence holds in four of five seeds. Direction only: the essential ones hold in half.

    What fails where there is an effect to show is not reproduced, however few seeds that are.
    """
    judged = [check for check in checks if not check.setup]
    if not all(check.half for check in judged if check.direction and check.shown):
        return Verdict.NOT
    if not judged or not all(check.showable for check in judged):
        return Verdict.NO_EFFECT
    return Verdict.REPRODUCED if all(check.mostly for check in judged) else Verdict.DIRECTION


@dataclass
class Outcome:
    """One reproduced figure. ``rows``: one row of numbers per variant; ``data``: all samples, for Parquet;
    ``depends``: on which values the verdict depends that the paper does not give."""

    id: str
    title: str
    claim: str
    checks: list[Check]
    columns: list[str]
    rows: list[list[str]]
    charts: list[Chart]
    remarks: list[str] = field(default_factory=list)
    data: dict[str, list[Any]] = field(default_factory=dict)
    depends: str = ""

    @property
    def verdict(self) -> Verdict:
        return judge(self.checks)
