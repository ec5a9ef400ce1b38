"""The committer: one thread that makes everything durable, several requests at a time.

While one commit is being synced, requests pile up; the next commit takes them all: one segment a dataset, one catalog
transaction, and then every request is answered. So a hundred publishers cost as many syncs as one.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from msgspec import Struct

from tocsin.cluster.model import Segment
from tocsin.cluster.ops import kill_points
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.records.record_decoder import Row
from tocsin.cluster.storage.catalog import Append, Catalog, Commit, FeedBatch, IdempotencyKey, Unwant, Want
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import StorageError, SystemTrouble, UserError

log = logging.getLogger(__name__)

MOST_ROWS = 1_000_000
MOST_REQUESTS = 10_000


class Request(Struct, kw_only=True, eq=False):
    """Something to be made durable. ``applied`` runs in the committer, after the commit and before the answer.

    Records come as a ``table`` of the log, or ``loose``: those of several requests become columns together.
    """

    store: DatasetStore | None = None
    table: pa.Table | None = None
    loose: Sequence[Row] = ()
    key: tuple[int, str, bytes] | None = None
    batch: FeedBatch | None = None
    want: Sequence[Want] = ()
    unwant: Sequence[Unwant] = ()
    applied: Callable[[int], Any] = lambda ordinal: ordinal
    future: Future[Any]

    @property
    def rows(self) -> int:
        return len(self.loose) + (0 if self.table is None else int(self.table.num_rows))


class Committer:
    """``appended`` is told which datasets have grown, once per commit."""

    def __init__(
        self,
        catalog: Catalog,
        segments: SegmentStore,
        metrics: Metrics,
        appended: Callable[[dict[int, int]], None],
    ) -> None:
        self.catalog = catalog
        self.segments = segments
        self.metrics = metrics
        self.appended = appended
        self.commits = 0
        self.lock = threading.RLock()
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
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

    def submit(self, **request: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if not self._open:
            future.set_exception(SystemTrouble("the data cluster is shutting down"))
            return future
        self._queue.put(Request(future=future, **request))
        return future

    def _run(self) -> None:
        first = self._queue.get()
        while first is not None:
            group, rows = [first], first.rows
            wanted = {want.subscription for want in first.want}
            following: Request | None = None
            open_ = True
            while len(group) < MOST_REQUESTS and rows < MOST_ROWS:
                try:
                    request = self._queue.get_nowait()
                except queue.Empty:
                    break
                # A commit knows no order between wanting and not wanting the same: the second waits for the next one.
                if request is None or any(unwant.subscription in wanted for unwant in request.unwant):
                    following, open_ = request, request is not None
                    break
                group.append(request)
                rows += request.rows
                wanted.update(want.subscription for want in request.want)
            self._commit(group)
            if not open_:
                return
            first = following or self._queue.get()

    def _commit(self, group: list[Request]) -> None:
        try:
            results = self._make_durable(group)
        except (UserError, ValueError, OverflowError) as error:
            # One names something that was dropped meanwhile, or its records are no columns: the others don't suffer.
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

    def _make_durable(self, group: list[Request]) -> list[Any]:
        kill_points.reach("commit.begin")
        started, began = time.time(), time.monotonic()
        by_dataset: dict[int, list[Request]] = {}
        for request in group:
            if request.store is not None and request.rows:
                by_dataset.setdefault(request.store.dataset.id, []).append(request)
        batch = Commit()
        tables: list[tuple[DatasetStore, pa.Table]] = []
        place: dict[int, int] = {}
        written: list[str] = []
        try:
            for dataset, requests in by_dataset.items():
                store = requests[0].store
                assert store is not None
                table = _columns(requests, store)
                segment = self.segments.write(table, f"datasets/{dataset}")
                written.append(segment.path)
                place[dataset] = len(batch.appends)
                batch.appends.append(Append(dataset, segment.path, segment.rows, segment.bytes))
                tables.append((store, table))
            kill_points.reach("commit.segment_written")
            for request in group:
                if request.key is not None:
                    feed, key, receipt = request.key
                    index = place.get(request.store.dataset.id) if request.store is not None else None
                    batch.keys.append(IdempotencyKey(feed, key, receipt, started, index))
                if request.batch is not None:
                    batch.feed_batches.append(request.batch)
                batch.subscribe.extend(request.want)
                batch.unsubscribe.extend(request.unwant)
            committed = self.catalog.commit(batch)
        except BaseException as error:
            # Where nobody knows whether the commit happened the files stay; an unneeded one goes at the next start.
            if not (isinstance(error, StorageError) and error.fields.get("uncertain")):
                self.segments.delete(written)
            raise
        kill_points.reach("commit.committed")
        self.commits += 1
        self.metrics.commit_seconds.observe(time.monotonic() - began)
        for store, table in tables:
            self.metrics.commits.labels(store.dataset.name).inc()
            self.metrics.commit_records.observe(table.num_rows)
        grown: dict[int, int] = {}
        results: list[Any] = []
        with self.lock:
            for (store, table), append, ordinal in zip(tables, batch.appends, committed.ordinals, strict=True):
                row = Segment(append.dataset, ordinal, ordinal, "log", append.path, append.rows, append.bytes)
                store.appended(row, table)
                grown[append.dataset] = ordinal
            for request in group:
                ordinal = grown.get(request.store.dataset.id, 0) if request.store is not None else 0
                try:
                    results.append(request.applied(ordinal))
                except Exception as error:  # the commit stands; only this answer is lost
                    log.exception("a committed request could not be applied")
                    results.append(error)
        kill_points.reach("commit.applied")
        if grown:
            self.appended(grown)
        return results

    def _resolve_uncertain(self, group: list[Request]) -> None:
        """A commit that failed may have happened (a connection lost in mid-commit): memory follows the catalog."""
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


def _columns(requests: Sequence[Request], store: DatasetStore) -> pa.Table:
    """The records of all requests, in their order: of two with the same key the later one counts."""
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
