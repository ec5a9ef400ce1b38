"""Compaction: merges the log into the base, so that reading costs the same after a week as after a minute.

In an append-only dataset the recent rows become one more base file, and small neighbouring files are merged. In a
keyed dataset the base is rewritten without overwritten and deleted rows, as soon as the recent rows are an eighth of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tocsin.cluster.model import Segment
from tocsin.cluster.ops import kill_points
from tocsin.cluster.storage.catalog import Catalog
from tocsin.cluster.storage.dataset import ORDINAL, DatasetSnapshot, DatasetStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tocsin.cluster.spark.session import SparkRuntime

KEYED_FRACTION = 8
FANOUT = 8
FILE_ROWS = 4_000_000
DRIVER_ROWS = 4_000_000


class Compactor:
    def __init__(self, catalog: Catalog, *, tail_rows: int, tail_segments: int) -> None:
        self.catalog = catalog
        self.tail_rows = tail_rows
        self.tail_segments = tail_segments

    def due(self, store: DatasetStore) -> bool:
        if store.dataset.key and not store.resident:
            limit = max(self.tail_rows, store.base_rows // KEYED_FRACTION)
            return store.recent_rows > limit or len(store.log) > self.tail_segments * 16
        many = store.recent_rows > self.tail_rows or len(store.log) > self.tail_segments
        return many or bool(self._tier(store.base))

    def run(self, store: DatasetStore, runtime: SparkRuntime | None = None) -> bool:
        """Compact the dataset; return whether there was anything to do."""
        with store.maintenance:
            snapshot = store.snapshot()
            try:
                if not store.log and not self._tier(store.base):
                    return False
                if store.dataset.key or snapshot.resident:
                    self._rewrite(store, snapshot, runtime)
                else:
                    self._append(store, snapshot)
            finally:
                snapshot.release()
            return True

    def replace(self, store: DatasetStore, snapshot: DatasetSnapshot, survivors: pa.Table) -> None:
        """Replace the rows of ``snapshot`` by ``survivors`` (with ``_ordinal``): a delete in an append-only dataset."""
        self._swap(store, snapshot.head, [self._write(store, survivors, 1, snapshot.head)], store.base)

    def replace_by(self, store: DatasetStore, snapshot: DatasetSnapshot, survivors: DataFrame) -> None:
        """The same, written by the executors, for rows that do not fit into the driver."""
        self._swap(store, snapshot.head, self._spark_write(store, survivors, snapshot.head), store.base)

    def _rewrite(self, store: DatasetStore, snapshot: DatasetSnapshot, runtime: SparkRuntime | None) -> None:
        rows = store.base_rows + snapshot.recent.num_rows
        if runtime is not None and not snapshot.resident and rows > DRIVER_ROWS:
            added = self._spark_write(store, snapshot._numbered(runtime), snapshot.head)
        else:
            added = [self._write(store, snapshot.table(), 1, snapshot.head)]
        self._swap(store, snapshot.head, added, store.base)

    def _append(self, store: DatasetStore, snapshot: DatasetSnapshot) -> None:
        base = list(store.base)
        removed: list[Segment] = []
        if snapshot.recent.num_rows:
            base.append(self._write(store, snapshot.recent, snapshot.base_last + 1, snapshot.head))
        while tier := self._tier(tuple(base)):
            tables = [store.store.read(segment.path) for segment in tier]
            merged = self._write(store, pa.concat_tables(tables), tier[0].first, tier[-1].last)
            start = base.index(tier[0])
            base[start : start + len(tier)] = [merged]
            removed += tier
        known = set(store.base)
        added = [segment for segment in base if segment not in known]
        # Files that were written and merged again within this run are not in the catalog.
        store.store.delete([segment.path for segment in removed if segment not in known])
        self._swap(store, snapshot.head, added, [segment for segment in removed if segment in known])

    def _swap(self, store: DatasetStore, upto: int, added: Sequence[Segment], replaced: Sequence[Segment]) -> None:
        kill_points.hit("compaction.written")
        merged = [segment for segment in store.log if segment.last <= upto]
        removed = [segment.path for segment in (*replaced, *merged)]
        self.catalog.compact(store.dataset.id, removed, added)
        kill_points.hit("compaction.swapped")
        paths = set(removed)
        remaining = [segment for segment in store.base if segment.path not in paths]
        store.rebased(upto, sorted([*remaining, *added], key=lambda segment: segment.first), removed)

    def _write(self, store: DatasetStore, table: pa.Table, first: int, last: int) -> Segment:
        written = store.store.write(table, f"datasets/{store.dataset.id}")
        return Segment(store.dataset.id, first, last, "base", written.path, written.rows, written.bytes)

    def _spark_write(self, store: DatasetStore, frame: DataFrame, last: int) -> list[Segment]:
        folder = store.store.name(f"datasets/{store.dataset.id}")
        frame.select(*store.names, ORDINAL).write.parquet(store.store.uri(folder))
        parts = store.store.adopt(folder)
        return [Segment(store.dataset.id, 1, last, "base", part.path, part.rows, part.bytes) for part in parts]

    @staticmethod
    def _tier(base: tuple[Segment, ...]) -> list[Segment]:
        """The newest neighbouring files to merge: at least FANOUT files, none much larger than the others."""
        run: list[Segment] = []
        for segment in reversed(base):
            if segment.rows >= FILE_ROWS // 2 or (run and segment.rows > FANOUT * max(item.rows for item in run)):
                break
            run.insert(0, segment)
        if len(run) < FANOUT or sum(segment.rows for segment in run) > FILE_ROWS:
            return []
        return run
