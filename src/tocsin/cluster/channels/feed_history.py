"""What a content subscription missed: the records of a dataset's later commits that meet its condition.

log     one file for each commit, complete and in order
base    commits that were compacted: of an append-only dataset all records that were not deleted, of a keyed one the
        latest record of each key. A small base is read here, a large one by Spark SQL with the same condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.model import Segment
from tocsin.cluster.query.geo import geodesy
from tocsin.cluster.query.spark_dialect import parse, to_sql
from tocsin.cluster.records import type_ddl
from tocsin.cluster.storage.commit_records import encode
from tocsin.cluster.storage.dataset import ORDINAL, DatasetStore
from tocsin.content import Condition, record_reader

if TYPE_CHECKING:
    from tocsin.cluster.spark.session import SparkRuntime

#: Records that Spark brings at once; all of a commit come together.
PIECE = 10_000


class FeedHistory:
    """Of one dataset. Lines are those of a channel's results: ``execution`` is a commit."""

    def __init__(self, store: DatasetStore, runtime: SparkRuntime) -> None:
        self.store = store
        self.runtime = runtime

    def lines(self, subscription: int, condition: Condition, after: int, limit: int) -> Iterator[bytes]:
        """At most ``limit`` of them, in the order of the commits."""
        self.store.check()
        with self.store.history(after) as history:
            for line in self._all(subscription, condition, after, history.base, history.log):
                yield line
                limit -= 1
                if not limit:
                    return

    def _all(
        self, id: int, condition: Condition, after: int, base: Sequence[Segment], log: Sequence[Segment]
    ) -> Iterator[bytes]:
        last = max((segment.last for segment in base), default=0)
        keyed, before = bool(self.store.dataset.key), after
        if last > after:
            for ordinal, records in self._compacted(base, condition, after):
                yield _line(id, ordinal, records, ("compacted", before) if keyed else None)
                before = ordinal
            if keyed and before < last:
                yield _line(id, last, [], ("compacted", before))
        expected = max(last, after) + 1
        for segment in log:
            if segment.first > expected:  # its loss was accepted
                yield _line(id, segment.first - 1, [], ("damaged", expected - 1))
            expected = segment.last + 1
            records = _met(condition, encode(self.store, self.store.read_log(segment)))
            if records:
                yield _line(id, segment.first, records)

    def _compacted(
        self, base: Sequence[Segment], condition: Condition, after: int
    ) -> Iterator[tuple[int, list[bytes]]]:
        if sum(segment.rows for segment in base) <= self.store.resident_rows:
            table = self.store.read_base(tuple(base))
            table = table.filter(pc.greater(table.column(ORDINAL), after))
            order = pc.sort_indices(table, [(ORDINAL, "ascending")])  # stable: rows stay in order
            yield from self._grouped(table.take(order), condition)
        else:
            yield from self._by_spark(base, condition, after)

    def _grouped(self, table: pa.Table, condition: Condition | None) -> Iterator[tuple[int, list[bytes]]]:
        """By commit."""
        rows = self._encoded(table)
        numbered = zip(table.column(ORDINAL).to_pylist(), rows, strict=True)
        for ordinal, group in groupby(numbered, key=lambda each: each[0]):
            records = [record for _, record in group]
            met = records if condition is None else _met(condition, records)
            if met:
                yield ordinal, met

    def _encoded(self, table: pa.Table) -> list[bytes]:
        return encode(self.store, self.store.as_log(table.select(self.store.names)))

    def _by_spark(self, base: Sequence[Segment], condition: Condition, after: int) -> Iterator[tuple[int, list[bytes]]]:
        frame = self.store.base_frame(self.runtime, tuple(base))
        names = [type_ddl.quoted(name) for name in self.store.names]
        placed = frame.selectExpr(*names, ORDINAL, "_metadata.file_path AS _file", "_metadata.row_index AS _row")
        query = geodesy.expand(parse(f"SELECT 1 WHERE ({condition.to_sql()}\n)"))
        met = placed.where(to_sql(query.args["where"].this))
        while True:
            later = met.where(f"{ORDINAL} > {after}").orderBy(ORDINAL, "_file", "_row")
            table = self.runtime.to_arrow(later.limit(PIECE))
            whole = table
            if table.num_rows == PIECE:  # the last commit may be cut
                last = table.column(ORDINAL)[-1].as_py()
                whole = table.filter(pc.less(table.column(ORDINAL), last))
                if not whole.num_rows:
                    whole = self.runtime.to_arrow(later.where(f"{ORDINAL} = {last}").orderBy("_file", "_row"))
            yield from self._grouped(whole, None)
            if table.num_rows < PIECE:
                return
            after = whole.column(ORDINAL)[-1].as_py()


def _met(condition: Condition, records: list[bytes]) -> list[bytes]:
    read = record_reader(condition.attributes)
    return [record for record in records if condition.matches(read(record))]


def _line(id: int, ordinal: int, records: list[bytes], gap: tuple[str, int] | None = None) -> bytes:
    end = b"}\n" if gap is None else b',"gap":"%b","before":%d}\n' % (gap[0].encode(), gap[1])
    head = b'{"subscription":%d,"execution":%d,"count":%d,"results":[' % (id, ordinal, len(records))
    return head + b",".join(records) + b"]" + end
