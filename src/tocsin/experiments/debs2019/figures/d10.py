"""Figure 10: maximum load, cov and migrations under nearest placement."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import metrics
from tocsin.experiments.debs2019.claims import lowers, sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d5, d7, d8
from tocsin.experiments.debs2019.summary import migrations, spread
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check


def checks(runs: Runs) -> list[Check]:
    found = [d8.extreme(runs), *lowers(runs, d8.NONE, d8.LDM), *lowers(runs, d8.NONE, d8.SDM)]
    return [*found, *(many_more(runs, how) for how in ("LDM", "SDM")), *sound(runs, d8.NONE, d8.LDM, d8.SDM)]


def many_more(runs: Runs, how: str) -> Check:
    """At least three times as many as the other placements need."""
    rnd, rr, nr = (spread(runs.of(Variant("proto", place, how)), migrations) for place in ("RND", "RR", "NR"))
    holds = tuple(c >= 3 * max(a, b, 1.0) for a, b, c in zip(rnd.values, rr.values, nr.values, strict=True))
    return Check(f"{how}: far more migrations than under RND and RR", f"RND {rnd}, RR {rr}, NR {nr}", holds)


FIGURE = Figure(
    "D-10",
    "performance metrics for NR placement with migration",
    "LDM and SDM repair the extreme skew of nearest placement, with far more migrations than RND and RR need",
    (*d8.VARIANTS, d5.LDM, d5.SDM, d7.LDM, d7.SDM, *d8.BROKEN),
    checks,
    (metrics("D-10", "Nearest placement: maximum load, cov, migrations", d8.VARIANTS),),
    depends="depends on β = 30 kB/s, which the paper does not give",
)
