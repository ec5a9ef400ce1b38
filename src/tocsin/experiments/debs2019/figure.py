"""The description of a figure, and how its outcome is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.experiments.chart import Chart
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
    charts: Callable[[Runs], list[Chart]]
    remarks: tuple[str, ...] = ()

    def outcome(self, runs: Runs) -> Outcome:
        return Outcome(
            self.id,
            self.title,
            self.claim,
            self.checks(runs),
            list(COLUMNS),
            [row(variant.name, runs.of(variant)) for variant in self.variants],
            self.charts(runs),
            list(self.remarks),
            samples(runs, self.variants),
        )


def samples(runs: Runs, variants: Sequence[Variant]) -> dict[str, list[Any]]:
    """Every sample of every broker in every run, to be written as Parquet."""
    names = ("setup", "placement", "balancing", "alpha", "seed", "seconds", "broker", "load_in", "load_out")
    counts = ("subscribers", "bytes_fetched", "bytes_delivered", "migrations_so_far")
    out: dict[str, list[Any]] = {name: [] for name in (*names, *counts)}
    for variant in variants:
        for seed, run in zip(runs.seeds, runs.of(variant), strict=True):
            samples = run.samples
            rows, brokers = samples.load.shape
            many = rows * brokers
            for name, value in zip(
                names[:5],
                (variant.setup, variant.placement, variant.balancing, variant.alpha, seed),
                strict=True,
            ):
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
