from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from cluster_harness import ManualCluster, running_cluster

from tocsin.cluster.model import Post
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.config import Limits
from tocsin.errors import Conflict, LimitExceeded, NotFound, RecordsRefused, UserError

SETUP = """
CREATE ACTIVE DATASET Places (user string NOT NULL, lat double, tags array<string>, at timestamp) PRIMARY KEY user;
CREATE ACTIVE DATASET Events (id string, n int);
CREATE FEED PlaceFeed; CONNECT FEED PlaceFeed TO DATASET Places; START FEED PlaceFeed;
CREATE FEED EventFeed; CONNECT FEED EventFeed TO DATASET Events; START FEED EventFeed;
"""


@pytest.fixture
def cluster(tmp_path: Path, spark_runtime: SparkRuntime) -> Iterator[ManualCluster]:
    with running_cluster(tmp_path / "home", spark_runtime) as made:
        made.execute(SETUP)
        yield made


def test_a_post_is_readable_when_it_is_acknowledged(cluster: ManualCluster) -> None:
    cluster.post("EventFeed", {"id": "a", "n": 1}, {"id": "b", "n": 2})
    assert sorted(cluster.rows("SELECT id, n FROM Events")) == [("a", 1), ("b", 2)]


def test_the_latest_record_of_a_key_replaces_earlier_ones(cluster: ManualCluster) -> None:
    cluster.post("PlaceFeed", {"user": "ann", "lat": 1}, {"user": "ann", "lat": 2}, {"user": "bob", "lat": 3})
    cluster.post("PlaceFeed", {"user": "bob", "lat": 4, "tags": ["x"], "at": "2026-01-02T03:04:05Z"})
    rows = cluster.rows("SELECT user, lat, tags, cast(at AS string) FROM Places ORDER BY user")
    assert rows == [("ann", 2.0, None, None), ("bob", 4.0, ["x"], "2026-01-02 03:04:05")]


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (b'{"id":"a","n":1}', "application/json", ""),
        (b'[{"id":"a","n":1}]', "application/json", ""),
        (b'{"id":"a","n":1}\n', "application/x-ndjson", ""),
        (gzip.compress(b'{"id":"a","n":1}'), "application/json", "gzip"),
    ],
)
def test_one_record_an_array_lines_and_gzip_are_accepted(
    cluster: ManualCluster, body: bytes, content_type: str, encoding: str
) -> None:
    receipt = cluster.publish(Post("EventFeed", body, content_type=content_type, encoding=encoding)).result(120)
    assert (receipt.accepted, receipt.refused) == (1, [])
    assert cluster.rows("SELECT id, n FROM Events") == [("a", 1)]


def test_single_invalid_records_are_refused(cluster: ManualCluster) -> None:
    body = json.dumps([{"id": "a", "n": 1}, {"id": "b", "n": "two"}, 3, {"id": "c", "n": 3}]).encode()
    receipt = cluster.publish(Post("EventFeed", body)).result(120)
    assert receipt.accepted == 2
    assert [refusal.index for refusal in receipt.refused] == [1, 2]
    assert all(refusal.reason for refusal in receipt.refused)
    assert sorted(cluster.rows("SELECT id FROM Events")) == [("a",), ("c",)]


def test_an_atomic_post_stores_all_records_or_none(cluster: ManualCluster) -> None:
    body = json.dumps([{"id": "a", "n": 1}, {"id": "b", "n": "two"}]).encode()
    with pytest.raises(RecordsRefused, match="1 of 2") as refused:
        cluster.publish(Post("EventFeed", body, atomic=True)).result(120)
    assert refused.value.fields["refused"][0]["index"] == 1
    assert cluster.rows("SELECT * FROM Events") == []


def test_a_repeated_post_with_the_same_key_is_stored_once(cluster: ManualCluster) -> None:
    first = cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120)
    again = cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120)
    assert (first.accepted, first.repeated, again.accepted, again.repeated) == (1, False, 1, True)
    assert cluster.rows("SELECT * FROM Events") == [("a", 1)]


def test_a_key_is_remembered_across_a_restart(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    with running_cluster(tmp_path / "home", spark_runtime) as cluster:
        cluster.execute(SETUP)
        cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120)
    with running_cluster(tmp_path / "home", spark_runtime) as cluster:
        assert cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120).repeated
        assert cluster.rows("SELECT * FROM Events") == [("a", 1)]


def test_concurrent_posts_with_the_same_key_are_stored_once(cluster: ManualCluster) -> None:
    barrier = threading.Barrier(16)
    receipts = []

    def post() -> None:
        barrier.wait()
        receipts.append(cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120))

    threads = [threading.Thread(target=post) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [receipt.accepted for receipt in receipts] == [1] * 16
    assert sum(not receipt.repeated for receipt in receipts) == 1
    assert cluster.rows("SELECT * FROM Events") == [("a", 1)]


def test_a_key_with_another_body_is_a_conflict(cluster: ManualCluster) -> None:
    cluster.publish(Post("EventFeed", b'{"id":"a","n":1}', idempotency_key="k")).result(120)
    with pytest.raises(Conflict, match="different body"):
        cluster.publish(Post("EventFeed", b'{"id":"b","n":1}', idempotency_key="k")).result(120)


def test_concurrent_posts_share_commits(cluster: ManualCluster) -> None:
    before = cluster.context.committer.commits
    with cluster.context.committer.lock:  # the first commit waits here while the others queue up
        futures = [cluster.publish(Post("EventFeed", msgspec.json.encode({"id": str(n), "n": n}))) for n in range(200)]
    assert sum(future.result(120).accepted for future in futures) == 200
    assert cluster.context.committer.commits - before <= 20
    assert cluster.rows("SELECT count(DISTINCT id) FROM Events") == [(200,)]


def test_compaction_of_many_commits_changes_no_row(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    with running_cluster(tmp_path / "home", spark_runtime, tail_rows=20, tail_segments=5) as cluster:
        cluster.execute(SETUP)
        for n in range(30):
            cluster.post("PlaceFeed", *[{"user": f"u{user}", "lat": n} for user in range(n % 7 * 5)])
            cluster.post("EventFeed", {"id": str(n), "n": n}, {"id": str(n), "n": -n})
            cluster.maintenance.compact()
        assert len(cluster.context.stores) == 2
        assert all(len(store.log) <= 6 for store in cluster.context.stores.values())
        assert cluster.rows("SELECT count(*), sum(n) FROM Events") == [(60, 0)]
        expected = {f"u{user}": n for n in range(30) for user in range(n % 7 * 5)}
        assert dict(cluster.rows("SELECT user, lat FROM Places")) == expected
    with running_cluster(tmp_path / "home", spark_runtime, tail_rows=20, tail_segments=5) as cluster:
        assert dict(cluster.rows("SELECT user, lat FROM Places")) == expected


@pytest.mark.parametrize(
    ("feed", "body", "options", "error"),
    [
        ("NoFeed", b"{}", {}, NotFound),
        ("EventFeed", b"", {}, UserError),
        ("EventFeed", b"{", {}, UserError),
        ("EventFeed", b"\xff\xfe", {}, UserError),
        ("EventFeed", b"x" * 5000, {}, LimitExceeded),
        ("EventFeed", gzip.compress(b"[" + b" " * 100_000 + b"]"), {"encoding": "gzip"}, LimitExceeded),
        ("EventFeed", b"not gzip", {"encoding": "gzip"}, UserError),
        ("EventFeed", b"{}", {"encoding": "rot13"}, UserError),
        ("EventFeed", b"{}", {"idempotency_key": ""}, LimitExceeded),
        ("EventFeed", b"{}", {"idempotency_key": "k" * 300}, LimitExceeded),
        ("EventFeed", b"[" + b"{}," * 50 + b"{}]", {}, LimitExceeded),
    ],
)
def test_a_bad_post_is_refused_and_stores_nothing(
    tmp_path: Path, spark_runtime: SparkRuntime, feed: str, body: bytes, options: dict, error: type[Exception]
) -> None:
    limits = Limits(request_bytes=4000, records=20)
    with running_cluster(tmp_path / "home", spark_runtime, limits=limits) as cluster:
        cluster.execute(SETUP)
        with pytest.raises(error):
            cluster.publish(Post(feed, body, **options)).result(120)
        assert [store.head for store in cluster.context.stores.values()] == [0, 0]


@pytest.mark.parametrize("statement", ["STOP FEED EventFeed", "STOP FEED EventFeed; DISCONNECT FEED EventFeed"])
def test_a_stopped_feed_refuses_posts(cluster: ManualCluster, statement: str) -> None:
    cluster.execute(statement)
    with pytest.raises(Conflict):
        cluster.publish(Post("EventFeed", b'{"id":"a","n":1}')).result(120)


def test_connecting_and_starting_a_feed_again_changes_nothing(cluster: ManualCluster) -> None:
    cluster.execute("CONNECT FEED EventFeed TO DATASET events; START FEED EventFeed")
    cluster.post("EventFeed", {"id": "a", "n": 1})
    assert cluster.rows("SELECT id FROM Events") == [("a",)]
    with pytest.raises(Conflict, match="running"):
        cluster.execute("CONNECT FEED EventFeed TO DATASET Places")


def test_a_full_disk_refuses_the_post_and_keeps_earlier_records(
    cluster: ManualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.post("EventFeed", {"id": "a", "n": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tocsin.cluster.storage.segments._encode", full)
    with pytest.raises(Exception, match="disk is full") as refused:
        cluster.publish(Post("EventFeed", b'{"id":"b","n":2}')).result(120)
    assert getattr(refused.value, "status", None) == 507
    monkeypatch.undo()
    cluster.post("EventFeed", {"id": "c", "n": 3})
    assert sorted(cluster.rows("SELECT id FROM Events")) == [("a",), ("c",)]
