"""Figure 9: the load of every broker under nearest placement, with migration after an early shuffle."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import broker_loads
from tocsin.experiments.debs2019.claims import lowers, repairs, sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d8
from tocsin.experiments.debs2019.summary import migrated, migrations, shuffled, spread
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

LDM, SDM = (Variant("proto", "NR", f"{how} + GSH") for how in ("LDM", "SDM"))
TITLE = "Broker load, nearest placement, an early shuffle and then migration, and ours"


def checks(runs: Runs) -> list[Check]:
    return [*shuffle(runs), *(early(runs, each) for each in (LDM, SDM)), *sound(runs, d8.NONE, d8.LDM, d8.SDM)]


def shuffle(runs: Runs) -> list[Check]:
    """A shuffle and then migration, compared with migration alone."""
    found = [check for each in (LDM, SDM) for check in (*lowers(runs, d8.NONE, each), repairs(runs, d8.NONE, each))]
    return [*found, *(fewer(runs, alone, both) for alone, both in ((d8.LDM, LDM), (d8.SDM, SDM)))]


def early(runs: Runs, variant: Variant) -> Check:
    """Within the eight minutes in which people subscribe."""
    times = [
        next((each.time / 60 for each in run.migrations if each.reason.startswith("GSH")), float("inf"))
        for run in runs.of(variant)
    ]
    count = spread(runs.of(variant), shuffled)
    text = ", ".join(f"{time:.1f}" if time < float("inf") else "never" for time in times)
    return Check(
        f"{variant.balancing}: the shuffle comes early",
        f"minute {text}; {count} migrated",
        tuple(t <= 8 for t in times),
    )


def fewer(runs: Runs, alone: Variant, with_shuffle: Variant) -> Check:
    a, b = spread(runs.of(alone), migrations), spread(runs.of(with_shuffle), migrated)
    says = f"after it, fewer migrations than with {alone.balancing} alone"
    invoked = [shuffled(run) > 0 for run in runs.of(with_shuffle)]
    holds = tuple(y < x and any_ for x, y, any_ in zip(a.values, b.values, invoked, strict=True))
    return Check(says, f"{a} → {b}", holds)


FIGURE = Figure(
    "D-9",
    "broker load distribution in NR placement with GSH",
    "with an early shuffle fewer migrations are needed afterwards than with migration alone",
    (d8.NONE, d8.LDM, d8.SDM, LDM, SDM, *d8.ADDED, *d8.BROKEN),
    checks,
    (broker_loads("D-9", TITLE, (LDM, SDM, d8.PEAL)),),
    (
        "Counted in all, the shuffle itself migrates several times as many subscribers as migration alone; the paper "
        "compares what comes after it, and says that in the prototype the shuffle shows not much benefit.",
    ),
    depends="depends on β = θ = 30 kB/s, which the paper does not give: it holds from 20 to 60, and not with 10",
)
