"""Sentences that several figures claim."""

from __future__ import annotations

from tocsin.experiments.debs2019.summary import cov, maximum, migrations, shuffled, spread, volume
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

#: A rounding error does not count as an improvement.
LESS = 1 - 1e-9


def lowers(runs: Runs, before: Variant, after: Variant, *, strictly: bool = True) -> list[Check]:
    """The maximum load and cov are lower. Unless ``strictly``, a run without migrations passes too."""
    none, some = runs.of(before), runs.of(after)
    found = []
    for what, figure, show in (("maximum load", maximum, volume), ("cov", cov, str)):
        a, b = spread(none, figure), spread(some, figure)
        idle = [not strictly and not run.migrations for run in some]
        holds = tuple(y < x * LESS or at_rest for x, y, at_rest in zip(a.values, b.values, idle, strict=True))
        says = f"{after.balancing} lowers the {what}{'' if strictly else ', or has nothing to do'}"
        found.append(Check(says, f"{show(a)} → {show(b)}", holds))
    return found


def few(runs: Runs, variant: Variant, share: float = 0.1) -> Check:
    found = spread(runs.of(variant), migrations)
    people = [int(run.samples.subscribers[-1].sum()) for run in runs.of(variant)]
    holds = tuple(value <= share * n for value, n in zip(found.values, people, strict=True))
    return Check(f"{variant.balancing} needs few migrations", f"{found} of {people[0]:,} subscribers", holds)


def no_shuffle(runs: Runs, variants: tuple[Variant, ...]) -> Check:
    found = [spread(runs.of(variant), shuffled) for variant in variants]
    holds = tuple(not any(values) for values in zip(*(each.values for each in found), strict=True))
    return Check("the shuffle is not invoked", ", ".join(str(each) for each in found) + " shuffled", holds)


def acted(runs: Runs, variant: Variant) -> Check:
    """The strategy had something to do at all."""
    found = spread(runs.of(variant), migrations)
    says = f"there is something to repair for {variant.balancing}"
    return Check(says, f"{found} migrations", tuple(value > 0 for value in found.values), direction=False)
