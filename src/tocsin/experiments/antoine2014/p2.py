"""Figure 2: an oracle sends every new peer to the most loaded one; zones are cut in the middle or at the centroid."""

from __future__ import annotations

from tocsin.experiments.antoine2014.figure import Figure
from tocsin.experiments.antoine2014.runs import Runs
from tocsin.experiments.outcome import Check

MIDDLE, CENTROID = "oracle, middle", "oracle, centroid"
#: What was fixed before any result: the factor, the share of peers with data, and how many are close to the ideal.
FACTOR, FEW, CLOSE = 5.0, 1 / 4, 0.6


def checks(runs: Runs) -> list[Check]:
    middle, centroid, peers = runs.of(MIDDLE), runs.of(CENTROID), runs.size.peers
    a, b = runs.deviation(MIDDLE), runs.deviation(CENTROID)
    factors = [x / y for x, y in zip(a.values, b.values, strict=True)]
    close = [each.close(runs.size.ideal) for each in centroid]
    return [
        Check(
            "cut in the middle, the relative standard deviation is at least 5 times as large",
            f"{a}% and {b}%, {min(factors):.1f} to {max(factors):.1f} times",
            tuple(each >= FACTOR for each in factors),
        ),
        Check(
            "cut in the middle, few peers have data",
            f"{', '.join(str(each.used) for each in middle)} of {peers}",
            tuple(each.used <= FEW * peers for each in middle),
        ),
        Check(
            "cut at the centroid, all have",
            f"{', '.join(str(each.used) for each in centroid)} of {peers}",
            tuple(each.used == peers for each in centroid),
        ),
        Check(
            "of them, almost two thirds are close to the ideal",
            ", ".join(f"{each:.0%}" for each in close),
            tuple(each >= CLOSE for each in close),
            direction=False,
        ),
    ]


FIGURE = Figure(
    "P-2",
    "zones cut in the middle or at the centroid",
    "cut in the middle, 4 of 32 peers have all data (559.4%); cut at the centroid all have some (69.5%), almost two "
    "thirds of them close to the ideal",
    (MIDDLE, CENTROID),
    checks,
)
