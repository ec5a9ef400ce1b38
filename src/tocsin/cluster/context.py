"""The state that the parts of a data cluster share, and consistent snapshots of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import TYPE_CHECKING

from tocsin.cluster.model import Channel, Dataset, Execution
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.query.compiler import Relation, Use
from tocsin.cluster.spark.analysis_cache import AnalysisCache
from tocsin.cluster.spark.errors import message_of
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.bulk_writer import BulkWriter
from tocsin.cluster.storage.catalog import Catalog
from tocsin.cluster.storage.commit_records import CommitRecords
from tocsin.cluster.storage.committer import Committer
from tocsin.cluster.storage.dataset import DatasetSnapshot, DatasetStore
from tocsin.cluster.storage.definition_index import DefinitionIndex
from tocsin.cluster.storage.feed_table import FeedTable
from tocsin.cluster.storage.grant_index import GrantIndex
from tocsin.cluster.storage.results import ResultStore
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.cluster.storage.subscription_table import SubscriptionTable
from tocsin.config import ClusterConfig
from tocsin.errors import Damaged, TocsinError
from tocsin.http.addresses import is_loopback
from tocsin.steady_clock import SteadyClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_views = count(1)


class ClusterContext:
    """The state of one data cluster. ``frames`` makes a DataFrame of a relation that is not a dataset; the callbacks in
    ``on_append`` are called after a commit with the new head of each changed dataset, those in ``on_damage`` when a
    dataset has become failing."""

    def __init__(self, config: ClusterConfig, catalog: Catalog, runtime: SparkRuntime) -> None:
        self.config = config
        self.catalog = catalog
        self.definitions = DefinitionIndex(catalog)
        open = config.anonymous == "all" or (not config.anonymous and is_loopback(config.host))
        self.grants = GrantIndex(self.definitions, open=open)
        self.segments = SegmentStore(config.segment_root)
        self.results = ResultStore(self.segments, self._damaged)
        #: Executions whose results cannot be read, with the reason.
        self.damaged: dict[tuple[int, int], str] = {}
        self.metrics = Metrics()
        self.runtime = runtime
        self.analysis_cache = AnalysisCache({**runtime.dialect, "private_api": str(runtime.private_api)})
        self.stores: dict[int, DatasetStore] = {}
        self.tables: dict[int, SubscriptionTable] = {}
        #: Those of feeds, by dataset and channel.
        self.feed_tables: dict[int, dict[int, SubscriptionTable]] = {}
        self.clock = SteadyClock(config.clock_grace, catalog.kept_time())
        self.commit_records = CommitRecords()
        self.committer = Committer(
            catalog,
            self.segments,
            self.metrics,
            self._appended,
            self.followers,
            self.commit_records,
            now=lambda: self.clock.now(),
        )
        self.bulk = BulkWriter(self.segments, self.committer, runtime, config.bulk_bytes)
        self.on_append: list[Callable[[dict[int, int]], None]] = []
        self.on_damage: list[Callable[[], None]] = []
        self.frames: Callable[[Relation], DataFrame] | None = None
        self.executed = threading.Condition()

    def _appended(self, heads: dict[int, int]) -> None:
        for callback in self.on_append:
            callback(heads)

    def _damaged(self, execution: Execution, error: Damaged) -> None:
        """Subscribers get a gap. Results that have expired meanwhile are not damaged: their files are deleted."""
        key = (execution.channel, execution.number)
        if self.catalog.execution(*key) is None:
            raise error
        channel = self.definitions.by_id(execution.channel)
        if channel is not None and key not in self.damaged:
            self.damaged[key] = text = f"the results of {channel.name}/{execution.number} are lost: {error}"
            self.metrics.results_damaged.labels(channel.name).inc()
            log.error("%s; subscribers get a gap", text)

    def open_dataset(self, dataset: Dataset) -> DatasetStore:
        store = DatasetStore(dataset, self.segments, resident_rows=self.config.tail_rows)
        self.load_dataset(store)
        self.stores[dataset.id] = store
        return store

    def load_dataset(self, store: DatasetStore, *, pages: bool = False) -> None:
        """Read the segments, at the start or after a repair. A dataset with damaged ones is failing. Every page is read
        of files that were damaged, with ``pages`` of all."""
        id, before = store.dataset.id, set(store.damaged)
        damaged = store.unreadable(segment for segment in store.files if pages or segment.path in before)
        with self.committer.lock:
            store.load(self.catalog.head(id), self.catalog.segments(id), damaged)
        if set(store.damaged) - before:
            log.error("%s", store.problem())
        elif before and not store.damaged:
            log.warning("dataset %s can be read again", store.dataset.name)

    def blame(self, stores: Iterable[DatasetStore], error: BaseException) -> None:
        """Raise Damaged if the error names a file that is damaged: a read by Spark or by the driver has failed.
        Its dataset and the channels that read it are failing from now on."""
        text = error.message if isinstance(error, TocsinError) else message_of(error)
        for store in stores:
            self._fail(store, store.unreadable(segment for segment in store.files if segment.path in text))

    def check(self, store: DatasetStore) -> None:
        """Raise Damaged if the dataset is failing, also by files that were replaced since they were last read."""
        store.check()
        self._fail(store, store.replaced())

    def _fail(self, store: DatasetStore, damaged: Mapping[str, Damaged]) -> None:
        if store.mark(damaged):
            log.error("%s", store.problem())
            for callback in self.on_damage:
                callback()
            store.check()

    def open_channel(self, channel: Channel) -> SubscriptionTable:
        table = (FeedTable if channel.kind == "feed" else SubscriptionTable)(channel, self.segments)
        table.load(self.catalog.subscriptions(channel.id), self.catalog.last_execution(channel.id))
        self.tables[channel.id] = table
        if channel.dataset is not None:
            self.feed_tables.setdefault(channel.dataset, {})[channel.id] = table
        return table

    def followers(self, dataset: int) -> list[tuple[int, int]]:
        """(broker, channel) of the content subscriptions to a dataset."""
        tables = self.feed_tables.get(dataset, {})
        return [(broker, channel) for channel, table in list(tables.items()) for broker in table.all_brokers()]

    def reading(self, uses: Iterable[Use], positions: Mapping[int, int] | None = None) -> ReadSnapshot:
        return ReadSnapshot(self, uses, positions or {})


class ReadSnapshot(AbstractContextManager["ReadSnapshot"]):
    """All datasets of a query, as of one moment; its temporary views are dropped at the end of the ``with`` block."""

    def __init__(self, context: ClusterContext, uses: Iterable[Use], positions: Mapping[int, int]) -> None:
        self.context = context
        self.positions = positions
        self.snapshots: dict[str, DatasetSnapshot] = {}
        self._frames: dict[Use, DataFrame] = {}
        self._views: dict[Use, str] = {}
        names = {use.relation.name for use in uses if use.relation.kind == "dataset"}
        stores = {name: context.stores[context.definitions.get(Dataset, name).id] for name in names}
        for store in stores.values():
            context.check(store)
        with context.committer.lock:  # no commit is partly visible in the datasets
            for name, store in stores.items():
                self.snapshots[name] = store.snapshot()

    def rows(self, use: Use | None) -> int | None:
        """About how many rows a use has; None if unknown."""
        snapshot = self.snapshots.get(use.relation.name) if use is not None else None
        if use is None or snapshot is None or use.relation.kind != "dataset":
            return None
        return snapshot.rows(self.positions.get(snapshot.dataset.id, 0) if use.mode == "new" else 0)

    def view(self, use: Use) -> str:
        """The name of the temporary view with the rows of this use."""
        name = self._views.get(use)
        if name is None:
            name = f"v{next(_views)}"
            self.frame(use).createOrReplaceTempView(name)
            self._views[use] = name
        return name

    def frame(self, use: Use) -> DataFrame:
        frame = self._frames.get(use)
        if frame is None:
            frame = self._frames[use] = self._read(use)
        return frame

    def _read(self, use: Use) -> DataFrame:
        snapshot = self.snapshots.get(use.relation.name) if use.relation.kind == "dataset" else None
        if snapshot is not None:
            position = self.positions.get(snapshot.dataset.id, 0)
            return snapshot.frame(self.context.runtime, use.mode, position)
        assert self.context.frames is not None
        return self.context.frames(use.relation)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for snapshot in self.snapshots.values():
            snapshot.release()
        if self._views and self.context.runtime.alive():
            for name in self._views.values():
                self.context.runtime.drop_view(name)
        if error is not None:
            self.context.blame([snapshot.owner for snapshot in self.snapshots.values()], error)
