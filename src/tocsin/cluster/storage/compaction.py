"""Compaction: merges the log into files, so that reading costs the same after a week as after a minute.

In an append-only dataset the recent rows become one more base file, and small neighbouring files are merged. In a
keyed dataset the recent rows become a delta file; the base is rewritten without overwritten and deleted rows as soon as
the changes are an eighth of it. So driver memory holds at most about ``tail_rows`` of a dataset, however large it is.

The driver writes what has at most ``bulk_bytes``. Executors write the rest, and without Spark that waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.model import Segment
from tocsin.cluster.ops import kill_points
from tocsin.cluster.storage.catalog import Catalog
from tocsin.cluster.storage.dataset import ORDINAL, DatasetSnapshot, DatasetStore
from tocsin.errors import StorageError, TocsinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tocsin.cluster.spark.session import SparkRuntime

KEYED_FRACTION = 8
FANOUT = 8
FILE_ROWS = 4_000_000
#: Commits of executors that Spark reads one by one; more are merged.
MOST_DELTAS = 16


class Compactor:
    def __init__(
        self, catalog: Catalog, *, tail_rows: int, tail_segments: int, bulk_bytes: int = 16 * 1024 * 1024
    ) -> None:
        self.catalog = catalog
        self.tail_rows = tail_rows
        self.tail_segments = tail_segments
        self.bulk_bytes = bulk_bytes

    def due(self, store: DatasetStore) -> bool:
        if store.dataset.key and not store.resident:
            many = store.recent_rows > self.tail_rows or len(store.log) > self.tail_segments * 16
            return many or self._changed(store, store.recent_rows)
        many = store.recent_rows > self.tail_rows or len(store.log) > self.tail_segments
        return many or bool(self._tier(_sorted(store.files))) or _commits(store.delta) > MOST_DELTAS

    def _changed(self, store: DatasetStore, recent: int) -> bool:
        """Whether the base of a keyed dataset has to be rewritten."""
        limit = max(self.tail_rows, store.base_rows // KEYED_FRACTION)
        return recent + store.delta_rows > limit or _commits(store.delta) > MOST_DELTAS

    def small(self, segments: Sequence[Segment]) -> bool:
        """Whether the driver may read all of these segments."""
        return sum(segment.bytes for segment in segments) <= self.bulk_bytes

    def run(self, store: DatasetStore, runtime: SparkRuntime | None = None, *, wait: bool = True) -> bool:
        """Compact the dataset; return whether it was done. Unless it may ``wait``, a statement that changes the dataset
        goes first."""
        if not store.maintenance.acquire(blocking=wait):
            return False
        try:
            snapshot = store.snapshot()
            try:
                if not (store.log or self.due(store)):
                    return False
                if snapshot.resident:
                    self._swap(store, snapshot.head, [self._write_rows(store, snapshot)], snapshot.segments)
                elif store.dataset.key:
                    return self._keyed(store, snapshot, runtime)
                else:
                    return self._append(store, snapshot, runtime)
            finally:
                snapshot.release()
            return True
        finally:
            store.maintenance.release()

    def replace(self, store: DatasetStore, snapshot: DatasetSnapshot, survivors: pa.Table) -> None:
        """Replace the rows of ``snapshot`` by ``survivors`` (with ``_ordinal``): a delete in an append-only dataset."""
        self._swap(store, snapshot.head, [self._write(store, survivors, 1, snapshot.head)], snapshot.segments)

    def replace_by(self, store: DatasetStore, snapshot: DatasetSnapshot, survivors: DataFrame) -> None:
        """The same, written by the executors, for rows that do not fit into the driver."""
        self._swap(store, snapshot.head, self._spark_write(store, survivors, 1, snapshot.head), snapshot.segments)

    def _keyed(self, store: DatasetStore, snapshot: DatasetSnapshot, runtime: SparkRuntime | None) -> bool:
        recent = int(snapshot.recent.num_rows)
        changed, small = self._changed(store, recent), self.small(snapshot.segments)
        if changed and small:
            self._swap(store, snapshot.head, [self._write_rows(store, snapshot)], snapshot.segments)
        elif changed and runtime is not None:
            added = self._spark_write(store, snapshot.numbered(runtime), 1, snapshot.head)
            self._swap(store, snapshot.head, added, snapshot.segments)
        elif recent:
            ordinals = snapshot.recent.column(ORDINAL)
            # Commits whose rows were all overwritten are in this file too, though none of its rows is theirs.
            first = min([pc.min(ordinals).as_py(), *(each.first for each in store.log if each.last <= snapshot.head)])
            last = pc.max(ordinals).as_py()
            self._swap(store, snapshot.head, [self._write(store, snapshot.recent, first, last, "delta")], ())
        else:
            return False
        return True

    def _append(self, store: DatasetStore, snapshot: DatasetSnapshot, runtime: SparkRuntime | None) -> bool:
        files = _sorted(snapshot.segments)
        removed: list[Segment] = []
        if snapshot.recent.num_rows:
            first = pc.min(snapshot.recent.column(ORDINAL)).as_py()
            files.append(self._write(store, snapshot.recent, first, snapshot.head))
        while tier := self._tier(files):
            if self.small(tier):
                merged = [self._write(store, store.read_files(tier), tier[0].first, _last(tier))]
            elif runtime is not None:
                merged = self._merged(store, tier, runtime, 1)
            else:
                break
            start = files.index(tier[0])
            files[start : start + len(tier)] = merged
            removed += tier
        deltas = [segment for segment in files if segment.kind == "delta"]
        if runtime is not None and _commits(deltas) > MOST_DELTAS:
            files = [segment for segment in files if segment.kind == "base"] + self._merged(store, deltas, runtime)
            removed += deltas
        known = set(snapshot.segments)
        added = [segment for segment in files if segment not in known]
        # Files that were written and merged again within this run are not in the catalog.
        store.store.delete([segment.path for segment in removed if segment not in known])
        if not added and not store.log:
            return False
        self._swap(store, snapshot.head, added, [segment for segment in removed if segment in known])
        return True

    def _merged(
        self, store: DatasetStore, segments: Sequence[Segment], runtime: SparkRuntime, files: int | None = None
    ) -> list[Segment]:
        """Base files that executors write of these, in this number of files."""
        kinds = [[segment for segment in segments if segment.kind == kind] for kind in ("base", "delta")]
        frames = [store.scan(runtime, some).select(*store.names, ORDINAL) for some in kinds if some]
        frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        first = min(segment.first for segment in segments)
        return self._spark_write(store, frame.coalesce(files) if files else frame, first, _last(segments))

    def _swap(self, store: DatasetStore, upto: int, added: Sequence[Segment], replaced: Sequence[Segment]) -> None:
        kill_points.hit("compaction.written")
        merged = [segment for segment in store.log if segment.last <= upto]
        removed = [segment.path for segment in (*replaced, *merged)]
        try:
            self.catalog.compact(store.dataset.id, removed, added)
        except TocsinError as error:
            if not error.fields.get("uncertain"):
                with suppress(StorageError):  # the next start deletes what is left
                    store.store.delete([segment.path for segment in added])
                raise
            if not self._swapped(store, added, removed):
                raise  # the files stay, because the change may still be made
        kill_points.hit("compaction.swapped")
        store.rebased(upto, added, set(removed))

    def _swapped(self, store: DatasetStore, added: Sequence[Segment], removed: Sequence[str]) -> bool:
        """Whether a change whose outcome was uncertain was made."""
        try:
            present = {segment.path for segment in self.catalog.segments(store.dataset.id)}
        except StorageError:
            return False
        return present.issuperset(segment.path for segment in added) and present.isdisjoint(removed)

    def _write_rows(self, store: DatasetStore, snapshot: DatasetSnapshot) -> Segment:
        return self._write(store, snapshot.table(), 1, snapshot.head)

    def _write(
        self, store: DatasetStore, table: pa.Table, first: int, last: int, kind: Literal["base", "delta"] = "base"
    ) -> Segment:
        written = store.store.write(table, f"datasets/{store.dataset.id}")
        return Segment(store.dataset.id, first, last, kind, written.path, written.rows, written.bytes)

    def _spark_write(self, store: DatasetStore, frame: DataFrame, first: int, last: int) -> list[Segment]:
        folder = store.store.name(f"datasets/{store.dataset.id}")
        try:
            frame.select(*store.names, ORDINAL).write.parquet(store.store.uri(folder))
            parts = store.store.adopt(folder)
        except BaseException:
            store.store.delete([folder])
            raise
        return [Segment(store.dataset.id, first, last, "base", part.path, part.rows, part.bytes) for part in parts]

    @staticmethod
    def _tier(files: Sequence[Segment]) -> list[Segment]:
        """The newest neighbouring files to merge: at least FANOUT files, none much larger than the others."""
        run: list[Segment] = []
        for segment in reversed(files):
            if segment.rows >= FILE_ROWS // 2 or (run and segment.rows > FANOUT * max(item.rows for item in run)):
                break
            run.insert(0, segment)
        if len(run) < FANOUT or sum(segment.rows for segment in run) > FILE_ROWS:
            return []
        return run


def _sorted(segments: Sequence[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda segment: segment.first)


def _commits(segments: Sequence[Segment]) -> int:
    return len({(segment.first, segment.last) for segment in segments})


def _last(segments: Sequence[Segment]) -> int:
    return max(segment.last for segment in segments)
