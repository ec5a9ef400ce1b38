"""A chart as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tocsin.balancing.model.arrays import Floats


@dataclass(frozen=True)
class Series:
    """``low`` and ``high`` are the smallest and the largest value over all seeds, if there are several.

    ``tone`` is an index into the palette; a variant has the same tone in every chart.
    """

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    tone: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines over time, or bars; ``labels`` are the names of the groups of bars, and x counts them."""

    title: str
    x_label: str
    y_label: str
    series: list[Series]
    kind: Literal["lines", "bars"] = "lines"
    labels: list[str] = field(default_factory=list)
    level: float | None = None  # a threshold
    level_name: str = ""


@dataclass(frozen=True)
class Chart:
    name: str  # of its files
    title: str
    panels: list[Panel]
    columns: int = 3
    shared: bool = False  # all panels have the same scale


#: Colours that people with red-green colour blindness can distinguish too.
PALETTE = (
    "#5b6472",
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#b8860b",
    "#7b4fa3",
    "#8b3a3a",
    "#2a6f77",
    "#6b7a1e",
)
