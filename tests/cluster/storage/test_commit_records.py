"""What stays in memory of commits is bounded by bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tocsin.cluster.model import Column, Dataset, Segment
from tocsin.cluster.storage import commit_records
from tocsin.cluster.storage.commit_records import CommitRecords
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import SegmentStore


class RecordsBench:
    def __init__(self, root: Path) -> None:
        self.segments = SegmentStore(str(root / "segments"))
        self.store = DatasetStore(Dataset(1, "d", (Column("s", "string"),)), self.segments, resident_rows=10)
        self.records = CommitRecords()
        self.reads: list[str] = []

    def commit(self, ordinal: int, *texts: str) -> None:
        table = pa.table({"s": list(texts)})
        file = self.segments.write(table, "datasets/1")
        self.store.appended(Segment(1, ordinal, ordinal, "log", file.path, file.rows, file.bytes), table)
        self.records.keep(1, ordinal, table)

    def of(self, ordinal: int) -> list[bytes] | None:
        return self.records.of(self.store, ordinal)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordsBench:
    made = RecordsBench(tmp_path)
    read = made.store.read_log

    def noted(segment: Segment) -> pa.Table:
        made.reads.append(segment.path)
        return read(segment)

    monkeypatch.setattr(made.store, "read_log", noted)
    return made


def test_records_of_a_kept_commit_are_not_read(bench: RecordsBench) -> None:
    bench.commit(1, "a", "b")
    assert bench.of(1) == bench.of(1) == [b'{"s":"a"}', b'{"s":"b"}']
    assert not bench.reads


def test_the_oldest_commits_make_room_for_the_bytes_of_a_new_one(
    bench: RecordsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_records, "BYTES", 1_000)
    for ordinal in (1, 2, 3):
        bench.commit(ordinal, "x" * 400)
    assert bench.of(3) == [b'{"s":"' + b"x" * 400 + b'"}']
    assert not bench.reads
    bench.of(1)
    assert len(bench.reads) == 1


def test_a_commit_above_the_bound_is_not_kept_and_displaces_none(
    bench: RecordsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_records, "BYTES", 1_000)
    bench.commit(1, "a")
    bench.commit(2, "x" * 2_000)
    for _ in range(2):
        assert bench.of(2) == [b'{"s":"' + b"x" * 2_000 + b'"}']
    assert len(bench.reads) == 2
    bench.of(1)
    assert len(bench.reads) == 2
