"""Section 6.1.3 on figures 6 and 10: LDM and SDM end up close to each other."""

from __future__ import annotations

from tocsin.experiments.chart import Chart
from tocsin.experiments.debs2019.charts import TONES, bars
from tocsin.experiments.debs2019.claims import lowers, sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d5, d7, d8
from tocsin.experiments.debs2019.summary import cov, maximum, migrations, scale, spread, volume
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

PLACES = (d5, d7, d8)
#: Maximum loads within a tenth, cov within a twentieth of the mean load.
CLOSE, CLOSE_COV = 0.1, 0.05


def checks(runs: Runs) -> list[Check]:
    """Only where there is a lot to repair: under random placement and round robin both hardly do anything."""
    found = [*lowers(runs, d8.NONE, d8.LDM), *lowers(runs, d8.NONE, d8.SDM)]
    return [*found, *close(runs, d8.LDM, d8.SDM), *sound(runs, d8.NONE, d8.LDM, d8.SDM)]


def close(runs: Runs, one: Variant, other: Variant) -> list[Check]:
    name = one.placement
    loads, covs = ([spread(runs.of(variant), figure) for variant in (one, other)] for figure in (maximum, cov))
    near = tuple(abs(x - y) <= CLOSE * x for x, y in zip(*(each.values for each in loads), strict=True))
    even = tuple(abs(x - y) <= CLOSE_COV for x, y in zip(*(each.values for each in covs), strict=True))
    return [
        Check(f"{name}: maximum loads are close", f"LDM {volume(loads[0])}, SDM {volume(loads[1])}", near),
        Check(f"{name}: cov is close", f"LDM {covs[0]}, SDM {covs[1]}", even),
    ]


def chart(runs: Runs) -> Chart:
    labels = [place.LDM.placement for place in PLACES]
    ways = ("LDM", "SDM", "peal")
    top = max(maximum(run) for place in PLACES for run in runs.of(place.LDM))
    unit, name = scale(top)

    def values(way: str, figure: object, divide: float = 1.0) -> list[list[float]]:
        chosen = [getattr(place, way.upper()) for place in PLACES]
        return [[figure(run) / divide for run in runs.of(variant)] for variant in chosen]  # type: ignore[operator]

    tones = [TONES[way] for way in ways]
    panels = [
        bars("Maximum load in the end", name, labels, {way: values(way, maximum, unit) for way in ways}, tones),
        bars("Imbalance in the end", "cov", labels, {way: values(way, cov) for way in ways}, tones),
        bars("Migrations", "subscribers", labels, {way: values(way, migrations) for way in ways}, tones),
    ]
    return Chart("D-10s", "LDM and SDM beside each other, and ours", panels)


FIGURE = Figure(
    "D-10s",
    "SDM beside LDM",
    "SDM and LDM end up close to each other",
    (*(each for place in PLACES for each in (place.LDM, place.SDM, place.PEAL)), d8.NONE, *d8.BROKEN),
    checks,
    (chart,),
    depends="depends on β = 30 kB/s, which the paper does not give",
)
