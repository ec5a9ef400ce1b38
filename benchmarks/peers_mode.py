"""Brokers that balance among themselves, beside a coordinator with peal and multistage, on the same load."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np

from benchmarks import harness
from benchmarks.harness import Table
from tocsin.balancing.brokers.strategies import STRATEGIES
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.config import CoordinatorConfig
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.debs import Size, debs_simulation
from tocsin.simulation.flow.decision_makers import Order, Parts
from tocsin.simulation.flow.flow import simulate
from tocsin.simulation.flow.peers import Peers, among_brokers
from tocsin.simulation.flow.settings import settings
from tocsin.simulation.flow.workload import Workload
from tocsin.wire.reports import LoadReport, MigrationOrder, ReportReply

COORDINATOR = ("", "peal", "multistage")
#: Bytes of a subscriber's id, and of a ticket.
ID, TICKET = 22, 200


class Coordinator:
    """Counts the reports of brokers and their replies, as they are on the wire."""

    def __init__(self, config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> None:
        self.parts, self.crowd, self.brokers = Parts(config, work, crowd, rng), crowd, work.brokers
        self.messages = self.bytes = 0

    def place(self, us: Longs, now: float) -> Ints:
        return self.parts.place(us, now)

    def tick(self, now: float) -> bool:
        return self.parts.tick(now)

    def report(self, changed: Longs, left: list[tuple[int, int]], news: Longs, now: float) -> list[Order]:
        orders = self.parts.report(changed, left, news, now)
        at = self.crowd.at[changed]
        for j in range(self.brokers):
            subscribers = {f"{u:{ID}}": self.crowd.rows[u].tolist() for u in changed[at == j].tolist()}
            rates = {int(k): float(self.crowd.lam[k]) for k in news.tolist() if self.crowd.n[k, j]}
            gone = [f"{u:{ID}}" for u, source in left if source == j]
            mine = [MigrationOrder("s" * ID, "b" * 8, "u" * 24, "t" * TICKET) for each in orders if each.source == j]
            for body in (LoadReport(1, False, subscribers, gone, rates), ReportReply(1, False, mine)):
                self.messages += 1
                self.bytes += len(msgspec.json.encode(body))
        return orders


def run(full: bool) -> list[Table]:
    subscribers, seconds = (10_000, 1_800.0) if full else (2_000, 1_200.0)
    tables = []
    for title, more in (("all subscriptions alike", {}), ("some subscriptions popular (Zipf)", {"zipf": 1.0})):
        size = Size(subscribers=subscribers, backs=subscribers // 7, seconds=seconds, **more)
        tables.append(compare(f"{subscribers:,} subscribers, 10 brokers, {title}", debs_simulation(1, size)))
    return tables


def compare(title: str, work: Workload) -> Table:
    table = Table(
        title,
        [
            "decides",
            "strategy",
            "max / bound, mean",
            "worst",
            "cov, mean",
            "migrations",
            "messages a broker and minute",
            "control bytes / traffic",
        ],
        notes=[
            "The load of the DEBS paper's simulation, placed at the nearest broker: skewed, with changing rates.",
            "Maximum and cov: over the second half of the run. bound: (ΣO + Σλ) / Σ capacity.",
            "Messages: reports to the coordinator and its replies, or messages between brokers. Traffic: results to "
            "brokers and notifications to subscribers.",
            "byers compares newcomers only, which the coordinator has placed here: it shows the cost of its exchange.",
        ],
    )
    for name in (*COORDINATOR, *STRATEGIES):
        harness.progress(name or "none")
        table.add(*row(name, work))
    return table


def row(name: str, work: Workload) -> list[Any]:
    made: list[Peers | Coordinator] = []

    def central(config: CoordinatorConfig, work: Workload, crowd: Crowd, rng: Random) -> Coordinator:
        made.append(Coordinator(config, work, crowd, rng))
        found = made[0]
        assert isinstance(found, Coordinator)
        return found

    among: list[Peers] = []
    if name in COORDINATOR:
        run = simulate(work, settings(name, "nearest"), decide=central)
    else:
        run = simulate(work, settings("", "nearest"), decide=among_brokers(name, among))
        made += among
    samples, late = run.samples, run.samples.time > work.seconds / 2
    over = samples.maximum[late] / samples.bound[late]
    return [
        "coordinator" if name in COORDINATOR else "brokers",
        name or "none",
        f"{np.mean(over):.3f}",
        f"{np.max(over):.3f}",
        float(np.mean(samples.cov[late])),
        len(run.migrations),
        made[0].messages / work.brokers / (work.seconds / 60),
        f"{made[0].bytes / float(run.bytes_in.sum() + run.bytes_out.sum()):.1e}",
    ]


if __name__ == "__main__":
    harness.main("peers_mode", run)
