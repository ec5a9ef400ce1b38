"""Figure 8: the load of every broker under nearest placement, without balancing, with LDM, with SDM."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import broker_loads
from tocsin.experiments.debs2019.claims import ANY_BROKER, LIGHTEST, lowers, repairs, sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.summary import cov, spread
from tocsin.experiments.debs2019.variants import ALPHA, GAMMA, Runs, Variant
from tocsin.experiments.outcome import Check

NONE, LDM, SDM, PEAL = (Variant("proto", "NR", how) for how in ("no LB", "LDM", "SDM", "peal"))
ADDED = (PEAL, Variant("proto", "LL", "no LB"), Variant("proto", "two choices", "no LB"))
VARIANTS = (NONE, LDM, SDM, *ADDED)
#: LDM with one of its rules broken.
BROKEN = tuple(Variant("proto", "NR", how) for how in (ANY_BROKER, LIGHTEST))
TITLE = "Broker load, nearest placement: without balancing, LDM, SDM, and ours"


def checks(runs: Runs) -> list[Check]:
    found = [extreme(runs), *lowers(runs, NONE, LDM), *lowers(runs, NONE, SDM)]
    found += [repairs(runs, NONE, variant) for variant in (LDM, SDM)]
    return [*found, *(below_alpha(runs, variant) for variant in (LDM, SDM)), *sound(runs, NONE, LDM, SDM)]


def extreme(runs: Runs) -> Check:
    before = spread(runs.of(NONE), cov)
    says = f"it is extremely skewed (cov > γ = {GAMMA})"
    return Check(says, f"cov {before}", tuple(x > GAMMA for x in before.values), setup=True)


def below_alpha(runs: Runs, variant: Variant) -> Check:
    """Follows from where the scheme stops."""
    after = spread(runs.of(variant), cov)
    says = f"{variant.balancing} stops below α (cov ≤ {ALPHA})"
    return Check(says, f"cov {after}", tuple(x <= ALPHA for x in after.values), setup=True)


FIGURE = Figure(
    "D-8",
    "broker load distribution in NR placement",
    "nearest placement is extremely skewed; LDM and SDM repair it",
    (*VARIANTS, *BROKEN),
    checks,
    (broker_loads("D-8", TITLE, VARIANTS),),
    depends="depends on β = 30 kB/s, which the paper does not give",
)
