"""Sentences that several figures claim.

A sentence about repair is judged in those seeds in which there is something to repair: without balancing, cov is above
α in the last third. That is a property of workload and placement; the strategy has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tocsin.experiments.debs2019.fewest import fewest
from tocsin.experiments.debs2019.summary import cov, fetched, maximum, mean, migrations, shuffled, spread, volume
from tocsin.experiments.debs2019.variants import ALPHA, Runs, Variant
from tocsin.experiments.outcome import Check, Spread
from tocsin.simulation.flow import Run

#: A rounding error does not count as an improvement.
LESS = 1 - 1e-9
#: Migrations in terms of the fewest possible; and of those of a broken strategy, which have to be clearly more.
TWICE, CLEARLY = 2, 0.9
#: LDM with one of its two rules broken, run beside it under nearest placement.
ANY_BROKER, LIGHTEST = "LDM to any broker", "LDM lightest first"


def repairable(runs: Runs, before: Variant) -> list[bool]:
    """In which seeds there is something to repair."""
    return [cov(run) > ALPHA for run in runs.of(before)]


def where(shown: Sequence[bool], holds: Sequence[bool]) -> tuple[bool | None, ...]:
    return tuple(each if any_ else None for any_, each in zip(shown, holds, strict=True))


def lowers(runs: Runs, before: Variant, after: Variant) -> list[Check]:
    """The maximum load and cov are lower."""
    shown, found = repairable(runs, before), []
    for what, figure, show in MEASURES:
        a, b = spread(runs.of(before), figure), spread(runs.of(after), figure)
        holds = [y < x * LESS for x, y in zip(a.values, b.values, strict=True)]
        found.append(Check(f"{after.balancing} lowers the {what}", f"{show(a)} → {show(b)}", where(shown, holds)))
    return found


Measure = tuple[str, Callable[[Run], float], Callable[[Spread], str]]
MEASURES: tuple[Measure, ...] = (("maximum load", maximum, volume), ("cov", cov, str))


def repairs(runs: Runs, before: Variant, after: Variant) -> Check:
    """By half at least: what the most loaded broker has above the mean."""
    over = [spread(runs.of(each), lambda run: maximum(run) / mean(run) - 1) for each in (before, after)]
    holds = [y <= x / 2 for x, y in zip(*(each.values for each in over), strict=True)]
    says = f"{after.balancing} removes most of the excess of the maximum over the mean"
    return Check(says, f"{over[0]} → {over[1]} of the mean", where(repairable(runs, before), holds))


def few(runs: Runs, before: Variant, variant: Variant, share: float = 0.1) -> Check:
    found = spread(runs.of(variant), migrations)
    people = [int(run.samples.subscribers[-1].sum()) for run in runs.of(variant)]
    holds = [value <= share * n for value, n in zip(found.values, people, strict=True)]
    text = f"{found} of {people[0]:,} subscribers"
    return Check(f"{variant.balancing} needs few migrations", text, where(repairable(runs, before), holds))


def slightly(runs: Runs, before: Variant, variants: Sequence[Variant]) -> list[Check]:
    """They improve even a slight imbalance, with few migrations."""
    found = [check for each in variants for check in lowers(runs, before, each)]
    for each in variants:
        found += [few(runs, before, each), near_fewest(runs, before, each)]
    return found


def near_fewest(runs: Runs, before: Variant, variant: Variant) -> Check:
    """At most twice as many as would have been enough for the same maximum, with hindsight."""

    def enough_for(seed: int) -> float:
        none, run = runs.one(before, seed), runs.one(variant, seed)
        return runs.once(("fewest", variant, seed), lambda: fewest(runs.work(before, seed), none, maximum(run)))

    enough, counts = Spread(tuple(map(enough_for, runs.seeds))), spread(runs.of(variant), migrations)
    holds = [0 < count <= TWICE * max(least, 1) for count, least in zip(counts.values, enough.values, strict=True)]
    says = f"{variant.balancing} needs at most twice the fewest migrations that lead to its maximum"
    return Check(says, f"{counts}, fewest {enough}", where(repairable(runs, before), holds))


def beats(runs: Runs, before: Variant, variant: Variant, broken: str) -> Check:
    control = replace(variant, balancing=broken)
    mine, theirs = (spread(runs.of(each), migrations) for each in (variant, control))
    holds = [0 < a <= CLEARLY * b for a, b in zip(mine.values, theirs.values, strict=True)]
    says = f"{variant.balancing} needs fewer migrations than {broken}"
    return Check(says, f"{mine}, {theirs}", where(repairable(runs, before), holds))


def thrifty(runs: Runs, before: Variant, variant: Variant) -> list[Check]:
    """The migrations are those of the paper's rules: the heaviest subscriber, to a chosen destination."""
    return [
        near_fewest(runs, before, variant),
        *(beats(runs, before, variant, each) for each in (ANY_BROKER, LIGHTEST)),
    ]


def by_similarity(runs: Runs, before: Variant, ldm: Variant, sdm: Variant) -> Check:
    """What SDM is for: subscribers go to brokers that fetch their subscriptions already."""
    a, b = (spread(runs.of(each), fetched) for each in (ldm, sdm))
    holds = [y < x * LESS for x, y in zip(a.values, b.values, strict=True)]
    says = "SDM chooses by similarity: all brokers together fetch less than with LDM"
    return Check(says, f"{volume(a)} → {volume(b)}", where(repairable(runs, before), holds))


def sound(runs: Runs, before: Variant, ldm: Variant, sdm: Variant) -> list[Check]:
    """Both schemes work as the paper describes them; otherwise figures about them say nothing."""
    found = [check for variant in (ldm, sdm) for check in thrifty(runs, before, variant)]
    return [*found, by_similarity(runs, before, ldm, sdm)]


def no_shuffle(runs: Runs, variants: tuple[Variant, ...]) -> Check:
    found = [spread(runs.of(variant), shuffled) for variant in variants]
    holds = tuple(not any(values) for values in zip(*(each.values for each in found), strict=True))
    return Check("the shuffle is not invoked", ", ".join(str(each) for each in found) + " shuffled", holds)
