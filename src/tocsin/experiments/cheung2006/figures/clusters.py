"""Figures 5.17 to 5.22: four clusters in a chain, of which the first has all publishers and gets all subscribers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tocsin.balancing.model.arrays import Floats
from tocsin.experiments.chart import Chart
from tocsin.experiments.cheung2006 import criteria
from tocsin.experiments.cheung2006 import measures as of
from tocsin.experiments.cheung2006.figure import Figure, over_time
from tocsin.experiments.cheung2006.runs import Runs, Variant
from tocsin.experiments.outcome import Check, Spread
from tocsin.simulation.edges import topology
from tocsin.simulation.edges.records import Records
from tocsin.simulation.edges.workload import Size

CHAIN = Variant(
    "global chain",
    topology.global_chain,
    Size(zero=0.2, seconds=12_000.0, change_at=8_000.0),
    small=Size(zero=0.2, seconds=3_000.0, change_at=2_700.0),
)
CLUSTERS = {cluster.name: [edge.name for edge in cluster.edges] for cluster in topology.global_chain().clusters}


def size(runs: Runs) -> Size:
    return CHAIN.small if runs.small and CHAIN.small is not None else CHAIN.size


def cluster_means(records: Records, name: str) -> Floats:
    """A row for each cluster: the mean of its edges, smoothed."""
    rows = [np.mean([records.of(name, edge) for edge in edges], axis=0) for edges in CLUSTERS.values()]
    return of.smooth(np.array(rows))


def near(records: Records, begin: float, end: float) -> float | None:
    """From when on neighbouring clusters are within the global threshold of each other."""
    means = cluster_means(records, "input")
    apart = np.max([np.abs(one - other) for one, other in pairwise(means)], axis=0)
    return of.holds_from(records.time, apart <= criteria.NEIGHBOURS_WITHIN, begin, end)


def at_end(records: Records, name: str, begin: float, end: float) -> Floats:
    return np.asarray(cluster_means(records, name)[:, of.between(records, begin, end)].mean(axis=1))


def checks(runs: Runs) -> list[Check]:
    found, extent = runs.of(CHAIN), size(runs)
    change, last = extent.change_at, extent.seconds
    first = [near(each, extent.join_until, change) for each in found]
    again = [near(each, change, last) for each in found]
    ends = [at_end(each, "input", change - 300.0, change) for each in found]
    finals = [at_end(each, "input", last - 300.0, last) for each in found]
    begun = [[f"{each.source}-{each.target}" for each in records.cluster_sessions[:2]] for records in found]
    overhead = [of.mean_overhead(each, change - 1_000.0, change) for each in found]

    def loads(rows: list[Floats]) -> str:
        return "; ".join(" ".join(f"{each:.2f}" for each in row) for row in rows)

    def times(values: list[float | None]) -> str:
        return ", ".join("never" if each is None else f"{each:,.0f} s" for each in values)

    return [
        Check(
            "neighbouring clusters are within 0.2 of each other by 6,000 s (4,700)",
            times(first),
            tuple(each is not None and each <= criteria.CLUSTERS_BY for each in first),
        ),
        Check(
            "and by 3,500 s after the change (2,500)",
            times(again),
            tuple(
                each is not None and each <= change + criteria.CLUSTERS_AGAIN_BY - CHAIN.size.change_at
                for each in again
            ),
        ),
        Check(
            "load thins out with the distance: no cluster is above a nearer one, before the change",
            loads(ends),
            tuple(all(other <= one + criteria.THINNER_BY for one, other in pairwise(row)) for row in ends),
        ),
        Check(
            "every cluster has some of it",
            loads(ends),
            tuple(bool(row.min() > 0.05) for row in ends),
        ),
        Check(
            "the ends of the chain differ by at most 0.35 (0.2)",
            ", ".join(
                f"{row[0] - row[-1]:.2f} and {last[0] - last[-1]:.2f}" for row, last in zip(ends, finals, strict=True)
            ),
            tuple(bool(abs(row[0] - row[-1]) <= criteria.ENDS_WITHIN) for row in ends),
        ),
        Check(
            "B10 balances with B20 first",
            "; ".join(", ".join(row) for row in begun),
            tuple(bool(row) and set(row[0].split("-")) == {"B10", "B20"} for row in begun),
            direction=False,
        ),
        Check(
            "balanced, control messages are below 0.7 % of all",
            ", ".join(f"{each:.2%}" for each in overhead),
            tuple(each < criteria.GLOBAL_OVERHEAD for each in overhead),
        ),
    ]


def table(runs: Runs) -> tuple[list[str], list[list[str]]]:
    found, extent = runs.of(CHAIN), size(runs)
    rows = []
    spans = [(extent.change_at - 300.0, extent.change_at), (extent.seconds - 300.0, extent.seconds)]
    for place, cluster in enumerate(CLUSTERS):
        cells = [
            str(Spread(tuple(float(at_end(each, name, *span)[place]) for each in found)))
            for span in spans
            for name in ("input", "output", "matching")
        ]
        counts = Spread(
            tuple(float(sum(each.of("subscriptions", edge)[-1] for edge in CLUSTERS[cluster])) for each in found)
        )
        rows.append([cluster, *cells, str(counts)])
    names = ("input ratio", "output ratio", "matching delay, s")
    columns = ["cluster", *names, *(f"{name}, at the end" for name in names), "subscriptions at the end"]
    return columns, rows


def charts(runs: Runs) -> list[Chart]:
    found = runs.of(CHAIN)
    time = found[0].time
    panels = []
    for title, label, name in (
        ("5.17 input utilisation ratio", "mean of the cluster", "input"),
        ("5.18 output utilisation ratio", "mean of the cluster", "output"),
        ("5.19 matching delay", "mean of the cluster, s", "matching"),
        ("5.21 subscribers", "subscriptions", "subscriptions"),
    ):
        factor = 2.0 if name == "subscriptions" else 1.0
        means = [factor * cluster_means(each, name) for each in found]
        lines = [(cluster, [rows[place] for rows in means]) for place, cluster in enumerate(CLUSTERS)]
        panels.append(over_time(title, label, lines, time))
    delivery = [of.smooth(np.array(each.delivery)) for each in found]
    overhead = [of.smooth(np.array(each.overhead)) for each in found]
    panels.insert(3, over_time("5.20 delivery delay", "s", [("all subscribers", delivery)], time))
    panels.append(over_time("5.22 message overhead", "control messages of all", [("overhead", overhead)], time))
    return [Chart("T-5.17", "global load balancing over time", panels, columns=2)]


FIGURE = Figure(
    "T-5.17",
    "global load balancing: four clusters in a chain (5.17 to 5.22)",
    "converges by about 4,700 s, and again by about 10,500 s after the change at 8,000 s; load thins out with the "
    "distance from the source cluster; overhead below 0.7%",
    (CHAIN,),
    checks,
    table,
    charts,
)
