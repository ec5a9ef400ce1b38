"""Figure 12: migrations in all under the three placements, with LDM and with SDM."""

from __future__ import annotations

from tocsin.experiments.chart import Chart
from tocsin.experiments.debs2019.charts import bars
from tocsin.experiments.debs2019.claims import sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d8, d10
from tocsin.experiments.debs2019.summary import migrations
from tocsin.experiments.debs2019.variants import PLACEMENTS, Runs, Variant
from tocsin.experiments.outcome import Check

WAYS = ("LDM", "SDM", "peal")


def checks(runs: Runs) -> list[Check]:
    found = [d10.many_more(runs, how) for how in ("LDM", "SDM")]
    return [*found, *sound(runs, d8.NONE, d8.LDM, d8.SDM)]


def chart(runs: Runs) -> Chart:
    panels = [
        bars(
            how,
            "migrations",
            ["RND", "RR", "NR", "LL", "2 choices"],
            {how: [[migrations(run) for run in runs.of(Variant("proto", place, how))] for place in PLACEMENTS]},
            [tone],
        )
        for how, tone in zip(WAYS, (1, 2, 3), strict=True)
    ]
    return Chart("D-12", "Migrations in all, by placement", panels)


FIGURE = Figure(
    "D-12",
    "migrations for RND, RR and NR placement",
    "nearest placement needs far more migrations than random and round robin, with LDM and with SDM",
    (*(Variant("proto", place, how) for how in WAYS for place in PLACEMENTS), d8.NONE, *d8.BROKEN),
    checks,
    (chart,),
    depends="depends on β = 30 kB/s, which the paper does not give",
)
