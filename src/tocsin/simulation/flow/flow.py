"""The run itself: what happens at one moment after the other, and what it amounts to.

At one moment newcomers come first, then subscriptions are made, then others end and subscribers log out, then those
arrive who were on the way, then channels run, then brokers report and the coordinator evaluates. Nothing happens
between two moments, so all counts are exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from tocsin.balancing.model.arrays import Longs
from tocsin.balancing.model.load import NOWHERE
from tocsin.config import CoordinatorConfig
from tocsin.simulation.flow.crowd import Crowd
from tocsin.simulation.flow.decision_makers import DecisionMaker, Order, Parts
from tocsin.simulation.flow.rates import Rates
from tocsin.simulation.flow.results import Migration, Run, Samples
from tocsin.simulation.flow.workload import Execution, Workload

#: Seconds from an order to the arrival of the subscriber.
DELAY = 0.5
#: Called with the simulated seconds that have passed.
Progress = Callable[[float], None]
Decide = Callable[[CoordinatorConfig, Workload, Crowd, Random], DecisionMaker]


def simulate(
    work: Workload,
    config: CoordinatorConfig,
    *,
    seed: int = 0,
    progress: Progress = lambda seconds: None,
    decide: Decide = Parts,
) -> Run:
    """The same work, settings and seed give the same run, to the byte."""
    return Flow(work, config, decide, Random(f"placement {seed}")).run(progress)


class Flow:
    def __init__(self, work: Workload, config: CoordinatorConfig, decide: Decide, rng: Random) -> None:
        self.work, self.config = work, config
        self.crowd = Crowd(work)
        self.rates = Rates(work.backs)
        self.decisions = decide(config, work, self.crowd, rng)
        m = work.brokers
        self.deliveries: Longs = np.zeros(m, dtype=np.int64)
        self.bytes_in: Longs = np.zeros(m, dtype=np.int64)
        self.bytes_out: Longs = np.zeros(m, dtype=np.int64)
        self.executions = 0
        self.migrations: list[Migration] = []
        self._logins = self._made = self._ended = 0  # how many of them have happened
        self._login_times = work.login[work.logins]
        self._made_times = work.made[work.by_time]
        self._under_way: list[tuple[float, int, Order]] = []
        self._orders = 0
        self._changed: list[Longs] = []
        self._left: list[tuple[int, int]] = []
        self._series: dict[str, list[Any]] = {}  # by field of ``Samples``
        self._before = (self.bytes_in.copy(), self.bytes_out.copy())

    def run(self, progress: Progress) -> Run:
        config = self.config
        done, report, look = 0, config.interval, config.balance_every
        while report <= self.work.seconds:
            done = self._run_channels(done, report)
            self._happen(report)
            self._report(report)
            self.decisions.tick(report)
            if report >= look:
                self._sample(report)
                look += config.balance_every
                progress(report)
            report += config.interval
        self._run_channels(done, self.work.seconds)
        self._happen(self.work.seconds)
        return self._result()

    def _run_channels(self, done: int, until: float) -> int:
        executions = self.work.executions
        while done < len(executions) and executions[done].time <= until:
            self._happen(executions[done].time)
            self._execute(executions[done])
            done += 1
        return done

    # What happens up to a moment.

    def _happen(self, now: float) -> None:
        self._come(now)
        end = int(np.searchsorted(self._made_times, now, side="right"))
        if end > self._made:
            some = self.work.by_time[self._made : end]
            us = self.work.owner[some]
            self.crowd.make(us, self.work.wanted[some])
            self._changed.append(us)
            self._made = end
        self._end(now)
        self._arrive(now)

    def _come(self, now: float) -> None:
        end = int(np.searchsorted(self._login_times, now, side="right"))
        if end > self._logins:
            us = self.work.logins[self._logins : end]
            self.crowd.come(us, self.decisions.place(us, now))
            self._changed.append(us)
            self._logins = end

    def _end(self, now: float) -> None:
        """Unsubscriptions and logouts."""
        ends = self.work.ends
        while self._ended < len(ends) and ends[self._ended][0] <= now:
            _, u, k = ends[self._ended]
            self._ended += 1
            if k >= 0:
                self.crowd.end(u, k)
                self._changed.append(np.array([u]))
            else:
                self._left.append((u, int(self.crowd.at[u])))
                self.crowd.leave(u)

    def _arrive(self, now: float) -> None:
        arrived = []
        while self._under_way and self._under_way[0][0] <= now:
            time, _, order = heapq.heappop(self._under_way)
            if self.crowd.at[order.subscriber] == NOWHERE:
                continue  # it has logged out on the way
            arrived.append(order)
            self._left.append((order.subscriber, order.source))
            self.migrations.append(Migration(time, *order))
        if arrived:
            us = np.array([order.subscriber for order in arrived])
            self.crowd.migrate(us, np.array([order.target for order in arrived]))
            self._changed.append(us)

    def _execute(self, execution: Execution) -> None:
        ks, sizes = execution.subscriptions, execution.sizes
        self.rates.add(ks, sizes, execution.time)
        found = sizes > 0
        n, held = self.crowd.n[ks[found]], sizes[found]
        holds = n > 0
        self.deliveries += n.sum(axis=0, dtype=np.int64)
        self.bytes_out += held @ n
        self.bytes_in += held @ holds
        self.executions += int(holds.any(axis=1).sum())

    # Reports to the coordinator.

    def _report(self, now: float) -> None:
        changed = np.unique(np.concatenate(self._changed)) if self._changed else np.empty(0, dtype=np.int64)
        changed = changed[self.crowd.at[changed] != NOWHERE]
        news = self.rates.news(now)
        self.crowd.rates(news, self.rates.reported[news])
        orders = self.decisions.report(changed, self._left, news, now)
        self._changed, self._left = [], []
        for order in orders:
            self._orders += 1
            heapq.heappush(self._under_way, (now + DELAY, self._orders, order))

    def _sample(self, now: float) -> None:
        loads = self.crowd.loads
        fetched, delivered = self._before
        sample = {
            "time": now,
            "incoming": loads.I,
            "outgoing": loads.O,
            "subscribers": self.crowd.count.copy(),
            "fetched": self.bytes_in - fetched,
            "delivered": self.bytes_out - delivered,
            "migrations": len(self.migrations),
            "bound": self.crowd.lower_bound(),
        }
        for key, value in sample.items():
            self._series.setdefault(key, []).append(value)
        self._before = (self.bytes_in.copy(), self.bytes_out.copy())

    def _result(self) -> Run:
        series = {key: np.array(values) for key, values in self._series.items()}
        samples = Samples(**series, capacity=self.work.capacity)
        return Run(
            samples,
            self.deliveries,
            self.bytes_in,
            self.bytes_out,
            self.executions,
            self.crowd.at.astype(np.int64),
            self.migrations,
        )
