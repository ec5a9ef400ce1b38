"""An execution: one set-oriented Spark query for all subscriptions of a channel, committed as one transaction.

The commit has the new positions of the channel, its result segment and the brokers to notify. After a crash before the
commit the execution is repeated; after a later crash only notifications are repeated. A run without results
advances the positions and gets no number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct

from tocsin.cluster.context import ClusterContext, ReadSnapshot
from tocsin.cluster.model import Channel, Dataset, Execution
from tocsin.cluster.ops import kill_points
from tocsin.cluster.query.compiler import CompiledQuery, compile_query
from tocsin.cluster.query.relations import Use
from tocsin.cluster.spark.bounded import bounded
from tocsin.cluster.spark.plan_cache import PlanCache
from tocsin.cluster.storage.results import SCHEMA, group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Run(Struct, frozen=True):
    """The outcome of a run of a channel. ``execution`` is set if there were results."""

    outcome: Literal["ok", "empty", "skipped"]
    seconds: float = 0.0
    execution: Execution | None = None
    brokers: tuple[int, ...] = ()


def triggers_of(context: ClusterContext, query: CompiledQuery) -> frozenset[int]:
    """The active datasets whose commits trigger a run: those read for new rows, or else all active ones."""
    uses = [use for use in query.uses if use.relation.kind == "dataset" and use.relation.active]
    fresh = [use for use in uses if use.mode != "all"]
    return frozenset(context.definitions.get(Dataset, use.relation.name).id for use in fresh or uses)


def frame_of(
    query: CompiledQuery,
    plans: PlanCache,
    reading: ReadSnapshot,
    subscriptions: str,
    size: int,
    now: float,
    previous: float,
) -> DataFrame:
    """The query of a channel over the view ``subscriptions`` with about ``size`` rows."""
    session = reading.context.runtime.session

    def render(view: Callable[[Use], str], subscribed: str) -> str:
        rows = lambda use: size if use is None else reading.rows(use)  # noqa: E731
        return query.render_channel(view, subscribed, rows=rows, now=now, previous=previous)

    def analyse() -> DataFrame:
        return session.sql(render(reading.view, subscriptions))

    if query.timed:  # the text is different for each execution
        return analyse()
    sources = {_name(use): reading.frame(use) for use in query.uses}
    sources[_SUBSCRIPTIONS] = session.table(subscriptions)
    return plans.frame(render(_name, _SUBSCRIPTIONS), sources, analyse)


_SUBSCRIPTIONS = "subscriptions"


def _name(use: Use) -> str:
    """The name of a source, the same for every execution."""
    return f"{use.relation.kind} {use.relation.name} {use.mode}"


class ChannelRunner:
    """One channel, run by one thread at a time."""

    def __init__(
        self,
        context: ClusterContext,
        channel: Channel,
        plans: PlanCache | None = None,
        query: CompiledQuery | None = None,
    ) -> None:
        self.context = context
        self.channel = channel
        self.query = query or compile_query(channel.body, context.definitions, channel.parameters, channel=True)
        self.triggers = triggers_of(context, self.query)
        self.plans = plans or PlanCache(context.runtime)
        self.large = False
        #: The Spark session that last ran the query.
        self.session = 0
        self.last_time = channel.created
        self.resync()

    def resync(self) -> None:
        """Read the position from the catalog: at the start, and when the outcome of a commit is uncertain."""
        catalog = self.context.catalog
        self.positions = catalog.positions(self.channel.id)
        self.number = catalog.last_execution(self.channel.id)
        last = catalog.execution(self.channel.id, self.number)
        if last is not None:
            self.last_time = max(self.last_time, last.time)
        table = self.context.tables[self.channel.id]
        table.executed(self.number)
        table.end_run()

    def lagging(self) -> bool:
        """Whether there are commits that the channel has not read."""
        return any(self.context.stores[dataset].head > self.positions.get(dataset, 0) for dataset in self.triggers)

    def lag(self) -> int:
        stores = self.context.stores
        return sum(max(0, stores[dataset].head - self.positions.get(dataset, 0)) for dataset in self.triggers)

    def run(self) -> Run:
        started = time.monotonic()
        kill_points.hit("execution.begin")
        table = self.context.tables[self.channel.id]
        if not self.lagging() and (self.channel.kind == "continuous" or self.query.needs_new):
            return Run("skipped")
        with self.context.reading(self.query.uses, self.positions) as reading:
            snapshots = {shot.dataset.id: shot for shot in reading.snapshots.values()}
            positions = {dataset: snapshots[dataset].head for dataset in snapshots.keys() & self.triggers}
            if not len(table):
                self._advance(positions)
                return Run("skipped")
            # The clock may go back; the time of a channel never does.
            now = max(self.context.clock.now(), self.last_time + 1e-6)
            session = self.context.runtime.generation
            table.start_run()
            with table.view(self.context.runtime) as subscriptions:
                number = self.number + 1
                frame = frame_of(self.query, self.plans, reading, subscriptions, len(table), now, self.last_time)
                path, rows, size, matched = (
                    self._written(frame, number) if self.large else self._collected(frame, number)
                )
            self.session = session
            if not rows:
                self._advance(positions)
                table.end_run()
                self.last_time = now
                return Run("empty", time.monotonic() - started)
            kill_points.hit("execution.result_written")
            execution = Execution(
                self.channel.id, number, now, self.context.clock.now(), rows, len(matched), size, path
            )
            # No subscription is confirmed meanwhile: a broker that got a lower position is notified of this execution.
            with self.context.committer.lock:
                brokers = tuple(sorted(table.brokers_of(matched)))
                self.context.catalog.record(execution, positions, brokers)
                kill_points.hit("execution.recorded")
                table.executed(number)
                table.end_run()
                self.positions = {**self.positions, **positions}
                self.number, self.last_time = number, now
            self.large = rows > self.context.config.collect_rows
        with self.context.executed:
            self.context.executed.notify_all()
        return Run("ok", time.monotonic() - started, execution, brokers)

    def _advance(self, positions: dict[int, int]) -> None:
        if any(ordinal > self.positions.get(dataset, 0) for dataset, ordinal in positions.items()):
            self.context.catalog.advance(self.channel.id, positions)
            self.positions = {**self.positions, **positions}

    def _collected(self, frame: DataFrame, number: int) -> tuple[str | None, int, int, Any]:
        """Collect the results in the driver, as columns: the fastest way if they fit, which the tasks decide."""
        results = bounded(frame, self.context.config.collect_rows, self.context.runtime.tasks)
        if results is None:
            return self._written(frame, number)
        kill_points.hit("execution.queried")
        grouped = self._alive(group(results)) if results.num_rows else SCHEMA.empty_table()
        if not grouped.num_rows:
            return None, 0, 0, np.zeros(0, np.int64)
        written = self.context.results.write(self.channel.id, number, grouped)
        rows = int(pa.compute.sum(grouped["count"]).as_py())
        return written.path, rows, written.bytes, grouped["subscription_id"].to_numpy()

    def _written(self, frame: DataFrame, number: int) -> tuple[str | None, int, int, Any]:
        """Let the executors write the results if they are too large for the driver."""
        from pyspark.sql import functions as f

        payload = f.collect_list("payload")
        if self.query.ordered:
            payload = f.transform(
                f.array_sort(f.collect_list(f.struct("rank", "payload"))), lambda item: item["payload"]
            )
        joined = f.concat(f.lit("["), f.array_join(payload, ","), f.lit("]"))
        grouped = frame.groupBy("subscription_id").agg(f.count("*").cast("int").alias("count"), joined.alias("payload"))
        folder = self.context.segments.name(self.context.results.folder(self.channel.id, number))
        grouped.sortWithinPartitions("subscription_id").write.parquet(self.context.segments.uri(folder))
        kill_points.hit("execution.queried")
        parts = self.context.segments.adopt(folder)
        if not sum(part.rows for part in parts):
            self.context.segments.delete([folder])
            return None, 0, 0, np.zeros(0, np.int64)
        counts = self.context.segments.read(folder, columns=["subscription_id", "count"])
        rows = int(pa.compute.sum(counts["count"]).as_py())
        return folder, rows, sum(part.bytes for part in parts), np.sort(counts["subscription_id"].to_numpy())

    def _alive(self, grouped: pa.Table) -> pa.Table:
        """Without subscriptions that ended after the view for Spark was made."""
        alive = self.context.tables[self.channel.id].live(grouped["subscription_id"].to_numpy())
        return grouped if alive.all() else grouped.filter(pa.array(alive))
