"""Group commit: one thread makes all changes durable, several requests at a time.

While one commit is being synced, requests queue up; the next commit takes them all, with one segment for each dataset
and one catalog transaction, and then answers every request. A hundred publishers cost as many syncs as one.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import pyarrow as pa
from msgspec import Struct, field

from tocsin.cluster.model import Segment
from tocsin.cluster.ops import kill_points
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.records.record_decoder import Row
from tocsin.cluster.storage.catalog import (
    AddSubscription,
    Append,
    Catalog,
    Commit,
    FeedBatch,
    IdempotencyKey,
    RemoveSubscription,
)
from tocsin.cluster.storage.commit_records import CommitRecords
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import SegmentStore, Written
from tocsin.errors import StorageError, SystemFailure, UserError

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_ROWS = 1_000_000
MOST_REQUESTS = 10_000


class CommitRequest(Struct, Generic[T], kw_only=True, eq=False):
    """A change to make durable. ``applied`` gets the ordinal of the dataset's commit; the committer calls it after the
    commit and before it answers, and what it returns is the answer.

    Records are a ``table`` of the log, or ``loose`` rows: those of several requests become one table. Or they are
    ``files`` that executors wrote, which become a commit of their own. The committer deletes them if it fails.
    """

    applied: Callable[[int], T]
    store: DatasetStore | None = None
    table: pa.Table | None = None
    loose: Sequence[Row] = ()
    files: Sequence[Written] = ()
    key: tuple[int, str, bytes] | None = None
    batch: FeedBatch | None = None
    subscribe: Sequence[AddSubscription] = ()
    unsubscribe: Sequence[RemoveSubscription] = ()
    future: Future[T] = field(default_factory=Future)

    @property
    def rows(self) -> int:
        return len(self.loose) + (0 if self.table is None else int(self.table.num_rows))


class Committer:
    """``appended`` is called after each commit with the new head of each dataset that has new records.

    ``followers``: (broker, channel) of the content subscriptions to a dataset. The commit itself notes that they have
    to be notified, and ``records`` keeps what they get.
    """

    def __init__(
        self,
        catalog: Catalog,
        segments: SegmentStore,
        metrics: Metrics,
        appended: Callable[[dict[int, int]], None],
        followers: Callable[[int], list[tuple[int, int]]] = lambda dataset: [],
        records: CommitRecords | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.now = now
        self.catalog = catalog
        self.segments = segments
        self.metrics = metrics
        self.appended = appended
        self.followers = followers
        self.records = records or CommitRecords()
        self.commits = 0
        self.lock = threading.RLock()
        self._queue: queue.SimpleQueue[CommitRequest[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._open = False

    def start(self) -> None:
        self._open = True
        self._thread.start()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._queue.put(None)
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, request: CommitRequest[T]) -> Future[T]:
        if self._open:
            self._queue.put(request)
        else:
            request.future.set_exception(SystemFailure("the data cluster is shutting down"))
        return request.future

    def _run(self) -> None:
        first = self._queue.get()
        while first is not None:
            group, rows = [first], first.rows
            subscribed = {item.subscription for item in first.subscribe}
            following: CommitRequest[Any] | None = None
            open_ = True
            while len(group) < MOST_REQUESTS and rows < MOST_ROWS and not first.files:
                try:
                    request = self._queue.get_nowait()
                except queue.Empty:
                    break
                # A commit has no order between subscribing and unsubscribing: unsubscribing waits for the next commit.
                if request is None:
                    open_ = False
                    break
                if request.files or any(item.subscription in subscribed for item in request.unsubscribe):
                    following = request
                    break
                group.append(request)
                rows += request.rows
                subscribed.update(item.subscription for item in request.subscribe)
            self._commit(group)
            if not open_:
                return
            first = following or self._queue.get()

    def _commit(self, group: list[CommitRequest[Any]]) -> None:
        try:
            results = self._make_durable(group)
        except (UserError, ValueError, OverflowError) as error:
            # A request names something that was dropped meanwhile, or its records do not fit: commit each one alone.
            if len(group) == 1:
                group[0].future.set_exception(error)
            else:
                for request in group:
                    self._commit([request])
            return
        except Exception as error:
            if not isinstance(error, StorageError):
                log.exception("a commit failed")
            self._resolve_uncertain(group)
            for request in group:
                request.future.set_exception(error)
            return
        for request, result in zip(group, results, strict=True):
            if isinstance(result, BaseException):
                request.future.set_exception(result)
            else:
                request.future.set_result(result)

    def _make_durable(self, group: list[CommitRequest[Any]]) -> list[Any]:
        kill_points.hit("commit.begin")
        started, began = self.now(), time.monotonic()
        by_dataset: dict[int, list[CommitRequest[Any]]] = {}
        for request in group:
            if request.store is not None and request.rows:
                by_dataset.setdefault(request.store.dataset.id, []).append(request)
        batch = Commit()
        tables: list[tuple[DatasetStore, pa.Table]] = []
        place: dict[int, int] = {}
        written = [file.path for file in group[0].files]
        alone = group[0].store if group[0].files else None
        try:
            if alone is not None:
                for file in group[0].files:
                    more, size = bool(batch.appends), (file.rows, file.bytes)
                    notify = () if more else tuple(self.followers(alone.dataset.id))
                    batch.appends.append(Append(alone.dataset.id, file.path, *size, notify, "delta", more))
            for dataset, requests in by_dataset.items():
                store = requests[0].store
                assert store is not None
                table = _columns(requests, store)
                segment = self.segments.write(table, f"datasets/{dataset}")
                written.append(segment.path)
                place[dataset] = len(batch.appends)
                notify = tuple(self.followers(dataset))
                batch.appends.append(Append(dataset, segment.path, segment.rows, segment.bytes, notify))
                tables.append((store, table))
            kill_points.hit("commit.segment_written")
            for request in group:
                if request.key is not None:
                    feed, key, receipt = request.key
                    index = place.get(request.store.dataset.id) if request.store is not None else None
                    batch.keys.append(IdempotencyKey(feed, key, receipt, started, index))
                if request.batch is not None:
                    batch.feed_batches.append(request.batch)
                batch.subscribe.extend(request.subscribe)
                batch.unsubscribe.extend(request.unsubscribe)
            ordinals = self.catalog.commit(batch)
        except BaseException as error:
            # If the outcome is uncertain the files stay; the next start deletes those that are not needed.
            if not (isinstance(error, StorageError) and error.fields.get("uncertain")):
                self.segments.delete(written)
            raise
        kill_points.hit("commit.committed")
        self.commits += 1
        self.metrics.commit_seconds.observe(time.monotonic() - began)
        for store, table in tables:
            self.metrics.commits.labels(store.dataset.name).inc()
            self.metrics.commit_records.observe(table.num_rows)
        if alone is not None:
            self.metrics.commits.labels(alone.dataset.name).inc()
            self.metrics.commit_records.observe(sum(file.rows for file in group[0].files))
        heads: dict[int, int] = {}
        results: list[Any] = []
        with self.lock:
            added = []
            for append, ordinal in zip(batch.appends, ordinals, strict=True):
                size = (append.rows, append.bytes)
                added.append(Segment(append.dataset, ordinal, ordinal, append.kind, append.path, *size))
                heads[append.dataset] = ordinal
            if alone is not None:
                alone.extended(added)
            else:
                for (store, table), append, row in zip(tables, batch.appends, added, strict=True):
                    if append.notify:
                        self.records.keep(append.dataset, row.first, table)
                    store.appended(row, table)
            for request in group:
                ordinal = heads.get(request.store.dataset.id, 0) if request.store is not None else 0
                try:
                    results.append(request.applied(ordinal))
                except Exception as error:  # the commit stands; only this answer is lost
                    log.exception("a committed request could not be applied")
                    results.append(error)
        kill_points.hit("commit.applied")
        if heads:
            self.appended(heads)
        return results

    def _resolve_uncertain(self, group: list[CommitRequest[Any]]) -> None:
        """A commit that failed may still have happened (the connection was lost): reload what the catalog says."""
        stores = {request.store.dataset.id: request.store for request in group if request.store is not None}
        for dataset, store in stores.items():
            try:
                head = self.catalog.head(dataset)
                if head != store.head:
                    with self.lock:
                        store.load(head, self.catalog.segments(dataset))
                    self.appended({dataset: head})
            except StorageError as error:
                log.warning("the catalog cannot be read: %s", error)


def _columns(requests: Sequence[CommitRequest[Any]], store: DatasetStore) -> pa.Table:
    """The records of all requests, in order: of two records with the same key the later one counts."""
    parts: list[pa.Table] = []
    loose: list[Row] = []
    for request in requests:
        loose += request.loose
        if request.table is not None:
            if loose:
                parts.append(store.rows_as_log(loose))
                loose = []
            same = request.table.schema.equals(store.log_schema)
            parts.append(request.table if same else request.table.cast(store.log_schema))
    if loose:
        parts.append(store.rows_as_log(loose))
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()
