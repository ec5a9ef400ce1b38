"""Kill -9 at every step: nothing acknowledged is lost, nothing is visible twice, and a restart continues by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from killed import ingest

from seeds import few
from tocsin.cluster.model import Channel, Dataset
from tocsin.cluster.ops import kill_points
from tocsin.cluster.storage.catalog import Catalog, open_catalog
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.results import ResultStore
from tocsin.cluster.storage.segments import SegmentStore

CHILD = Path(__file__).parent / "killed.py"
INGESTION = [point for point in kill_points.POINTS if point.startswith(("commit.", "compaction."))]
#: The steps on both sides of the one transaction.
COMMIT = ["execution.result_written", "execution.recorded"]
EXECUTION = [point for point in kill_points.POINTS if point.startswith("execution.")]


def child(what: str, home: Path, count: int, kill_at: str = "") -> tuple[int, list[dict[str, object]]]:
    """Runs the data cluster until it ends or dies; its exit code and output."""
    environment = {**os.environ, "TOCSIN_KILL_AT": kill_at, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, str(CHILD), what, str(home), str(count)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert ran.returncode in (0, -9), ran.stderr[-3000:]
    return ran.returncode, lines


def records(catalog: Catalog, home: Path) -> list[int]:
    dataset = catalog.get(Dataset, "Reports")
    if dataset is None:
        return []
    store = DatasetStore(dataset, SegmentStore(str(home / "segments")), resident_rows=1_000_000)
    store.load(catalog.head(dataset.id), catalog.segments(dataset.id))
    snapshot = store.snapshot()
    return sorted(snapshot.table()["n"].to_pylist())


def acknowledged(lines: list[dict[str, object]]) -> set[object]:
    return {line["acknowledged"] for line in lines if "acknowledged" in line}


@pytest.mark.parametrize("point", INGESTION)
@pytest.mark.parametrize("occasion", few([1, 2], 1))
def test_ingestion_survives_a_kill_at_every_step(point: str, occasion: int, tmp_path: Path) -> None:
    _, lines = child("ingest", tmp_path, 12, f"{point}:{occasion}")
    kept = acknowledged(lines)
    catalog = open_catalog("", str(tmp_path))
    present = records(catalog, tmp_path)
    assert kept <= set(present)
    assert len(present) == len(set(present))
    catalog.close()
    # The publishers retry with the same keys, as they got no answer; nothing is killed now, so this process can do it.
    ingest(str(tmp_path), 12)
    catalog = open_catalog("", str(tmp_path))
    assert records(catalog, tmp_path) == list(range(12))
    assert not SegmentStore(str(tmp_path / "segments")).orphans(catalog.all_paths())
    catalog.close()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["bulk.written", "commit.committed", "bulk.committed"])
def test_a_load_by_executors_is_whole_or_not_there_after_a_kill(tmp_path: Path, point: str) -> None:
    code, lines = child("load", tmp_path, 50, point)
    assert code == -9 and {"loaded": True} not in lines
    catalog = open_catalog("", str(tmp_path))
    before = records(catalog, tmp_path)
    assert before == ([] if point == "bulk.written" else list(range(50)))
    catalog.close()
    ingest(str(tmp_path), 0)  # a start deletes what has no commit
    catalog = open_catalog("", str(tmp_path))
    assert records(catalog, tmp_path) == before
    orphans = SegmentStore(str(tmp_path / "segments")).orphans(catalog.all_paths())
    assert not [path for path in orphans if path.endswith(".parquet")]
    catalog.close()


def check_executions(home: Path, notified: set[object], posted: set[object]) -> None:
    """Each record is in exactly one execution, numbers have no gap, and the broker was notified of all of them."""
    catalog = open_catalog("", str(home))
    channel = catalog.get(Channel, "OfKind")
    assert channel is not None
    results = ResultStore(SegmentStore(str(home / "segments")), pytest.fail)
    executions = catalog.executions(channel.id, limit=100_000)
    seen: Counter[int] = Counter()
    for execution in executions:
        for chunk in results.pull(execution, np.array([_subscription(catalog, channel)])):
            for line in chunk.splitlines():
                seen.update(item["n"] for item in json.loads(line)["results"])
    present = records(catalog, home)
    assert [execution.number for execution in executions] == list(range(1, len(executions) + 1))
    assert posted <= set(present)
    assert seen == Counter(present)
    (dataset,) = catalog.positions(channel.id)
    assert catalog.positions(channel.id)[dataset] == catalog.head(dataset)
    assert notified == {execution.number for execution in executions}
    catalog.close()


def _subscription(catalog: Catalog, channel: Channel) -> int:
    ((number, _, _),) = catalog.subscriptions(channel.id)
    return number


@pytest.mark.parametrize("points", few([COMMIT, EXECUTION], 1), ids=len)
def test_executions_survive_a_kill_at_every_step(tmp_path: Path, points: list[str]) -> None:
    notified: set[object] = set()
    posted: set[object] = set()
    for point in points:
        code, lines = child("execute", tmp_path, 3, f"{point}:1")
        assert code == -9, point
        notified |= {line["notified"] for line in lines if "notified" in line}
        posted |= acknowledged(lines)
    code, lines = child("execute", tmp_path, 3)
    assert code == 0
    notified |= {line["notified"] for line in lines if "notified" in line}
    posted |= acknowledged(lines)
    check_executions(tmp_path, notified, posted)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("occasion", [2, 3, 5])
def test_executions_survive_later_kills_at_every_step(occasion: int, tmp_path: Path) -> None:
    notified: set[object] = set()
    posted: set[object] = set()
    for point in [*EXECUTION, *INGESTION]:
        _, lines = child("execute", tmp_path, 12, f"{point}:{occasion}")
        notified |= {line["notified"] for line in lines if "notified" in line}
        posted |= acknowledged(lines)
    code, lines = child("execute", tmp_path, 3)
    assert code == 0
    notified |= {line["notified"] for line in lines if "notified" in line}
    posted |= acknowledged(lines)
    check_executions(tmp_path, notified, posted)
