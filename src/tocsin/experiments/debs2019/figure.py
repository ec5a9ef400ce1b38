"""The description of a figure, and how its outcome is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.experiments.debs2019.charts import Drawing
from tocsin.experiments.debs2019.summary import COLUMNS, row
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check, Outcome


@dataclass(frozen=True)
class Figure:
    """``variants`` are the paper's, then those that we added."""

    id: str
    title: str
    claim: str
    variants: tuple[Variant, ...]
    checks: Callable[[Runs], list[Check]]
    charts: tuple[Drawing, ...]
    remarks: tuple[str, ...] = ()
    depends: str = ""

    def outcome(self, runs: Runs) -> Outcome:
        return Outcome(
            self.id,
            self.title,
            self.claim,
            self.checks(runs),
            list(COLUMNS),
            [row(variant.name, runs.of(variant)) for variant in self.variants],
            [draw(runs) for draw in self.charts],
            list(self.remarks),
            samples(runs, self.variants),
            self.depends,
        )


def samples(runs: Runs, variants: Sequence[Variant]) -> dict[str, list[Any]]:
    """Every sample of every broker in every run, to be written as Parquet."""
    names = ("setup", "placement", "balancing", "alpha", "beta", "seed", "seconds", "broker", "load_in", "load_out")
    counts = ("subscribers", "bytes_fetched", "bytes_delivered", "migrations_so_far")
    out: dict[str, list[Any]] = {name: [] for name in (*names, *counts)}
    for variant in variants:
        for seed, run in zip(runs.seeds, runs.of(variant), strict=True):
            samples = run.samples
            rows, brokers = samples.load.shape
            many = rows * brokers
            same = (variant.setup, variant.placement, variant.balancing, variant.alpha, variant.beta, seed)
            for name, value in zip(names, same, strict=False):
                out[name] += [value] * many
            out["seconds"] += samples.time.repeat(brokers).tolist()
            out["broker"] += list(range(brokers)) * rows
            out["load_in"] += samples.incoming.ravel().tolist()
            out["load_out"] += samples.outgoing.ravel().tolist()
            out["subscribers"] += samples.subscribers.ravel().tolist()
            out["bytes_fetched"] += samples.fetched.ravel().tolist()
            out["bytes_delivered"] += samples.delivered.ravel().tolist()
            out["migrations_so_far"] += samples.migrations.repeat(brokers).tolist()
    return out
