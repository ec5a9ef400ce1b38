"""What a content subscription missed: the records of a dataset's later commits that meet its condition.

log     one file for each commit, complete and in order
delta   files of a commit that executors wrote; or commits of a keyed dataset that left the memory
base    commits that were compacted: of an append-only dataset all records that were not deleted, of a keyed one the
        latest record of each key. Small files are read here, large ones by Spark SQL with the same condition.
"""

from __future__ import annotations

from collections import deque
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
from tocsin.cluster.storage.dataset import DELETED, ORDINAL, PLACE, DatasetStore, History, whole
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
            for line in self._all(subscription, condition, after, history):
                yield line
                limit -= 1
                if not limit:
                    return

    def _all(self, id: int, condition: Condition, after: int, history: History) -> Iterator[bytes]:
        last = max((segment.last for segment in history.files if not whole(segment)), default=0)
        keyed, before = bool(self.store.dataset.key), after
        if last > after:
            compacted = [segment for segment in history.files if segment.first <= last]
            lost = deque([] if keyed else _lost(compacted, after, last))
            for ordinal, records in self._compacted(compacted, condition, after, last):
                while lost and lost[0][1] < ordinal:
                    yield _loss(id, *lost.popleft())
                yield _line(id, ordinal, records, ("compacted", before) if keyed else None)
                before = ordinal
            for first, end in lost:
                yield _loss(id, first, end)
            if keyed and before < last:
                yield _line(id, last, [], ("compacted", before))
        expected = max(last, after) + 1
        commits = sorted((*history.log, *history.files), key=lambda segment: segment.first)
        for first, group in groupby(commits, key=lambda segment: segment.first):
            if first < expected:
                continue
            if first > expected:
                yield _loss(id, expected, first - 1)
            expected, segments = first + 1, list(group)
            if segments[0].kind == "log":
                records = _met(condition, encode(self.store, self.store.read_log(segments[0])))
            else:
                met = self._compacted(segments, condition, first - 1, first)
                records = [record for _, piece in met for record in piece]
            if records:
                yield _line(id, first, records)
        if expected <= history.head:
            yield _loss(id, expected, history.head)

    def _compacted(
        self, segments: Sequence[Segment], condition: Condition, after: int, last: int
    ) -> Iterator[tuple[int, list[bytes]]]:
        """The commits after an ordinal and up to another one."""
        if sum(segment.rows for segment in segments) <= self.store.resident_rows:
            table = self.store.live(self.store.read_files(segments))
            ordinals = table.column(ORDINAL)
            table = table.filter(pc.and_(pc.greater(ordinals, after), pc.less_equal(ordinals, last)))
            yield from self._grouped(table, condition)
        else:
            yield from self._by_spark(segments, condition, after, last)

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

    def _by_spark(
        self, segments: Sequence[Segment], condition: Condition, after: int, last: int
    ) -> Iterator[tuple[int, list[bytes]]]:
        frames = []
        for kind in ("base", "delta"):
            if some := [segment for segment in segments if segment.kind == kind]:
                frame = self.store.scan(self.runtime, some, placed=True)
                live = frame.where(f"NOT {DELETED}") if DELETED in frame.columns else frame
                frames.append(live.select(*[type_ddl.quoted(name) for name in self.store.names], ORDINAL, *PLACE))
        placed = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        query = geodesy.expand(parse(f"SELECT 1 WHERE ({condition.to_sql()}\n)"))
        met = placed.where(to_sql(query.args["where"].this)).where(f"{ORDINAL} <= {last}")
        while True:
            later = met.where(f"{ORDINAL} > {after}").orderBy(ORDINAL, *PLACE)
            table = self.runtime.to_arrow(later.limit(PIECE))
            whole = table
            if table.num_rows == PIECE:  # the last commit may be cut
                last = table.column(ORDINAL)[-1].as_py()
                whole = table.filter(pc.less(table.column(ORDINAL), last))
                if not whole.num_rows:
                    whole = self.runtime.to_arrow(later.where(f"{ORDINAL} = {last}").orderBy(*PLACE))
            yield from self._grouped(whole, None)
            if table.num_rows < PIECE:
                return
            after = whole.column(ORDINAL)[-1].as_py()


def _met(condition: Condition, records: list[bytes]) -> list[bytes]:
    read = record_reader(condition.attributes)
    return [record for record in records if condition.matches(read(record))]


def _lost(segments: Sequence[Segment], after: int, last: int) -> Iterator[tuple[int, int]]:
    """The commits up to ``last`` that no file has: the first and the last one of each gap."""
    expected = after + 1
    for segment in sorted(segments, key=lambda segment: segment.first):
        if segment.first > expected:
            yield expected, segment.first - 1
        expected = max(expected, segment.last + 1)
    if expected <= last:
        yield expected, last


def _loss(id: int, first: int, last: int) -> bytes:
    """The loss of these commits was accepted."""
    return _line(id, last, [], ("damaged", first - 1))


def _line(id: int, ordinal: int, records: list[bytes], gap: tuple[str, int] | None = None) -> bytes:
    end = b"}\n" if gap is None else b',"gap":"%b","before":%d}\n' % (gap[0].encode(), gap[1])
    head = b'{"subscription":%d,"execution":%d,"count":%d,"results":[' % (id, ordinal, len(records))
    return head + b",".join(records) + b"]" + end
