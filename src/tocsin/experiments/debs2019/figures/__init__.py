"""All figures, by their names."""

from __future__ import annotations

from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d5, d6, d7, d8, d9, d10, d10s, d11, d12, d13, d14

FIGURES: dict[str, Figure] = {
    each.FIGURE.id: each.FIGURE for each in (d5, d6, d7, d8, d9, d10, d10s, d11, d12, d13, d14)
}
