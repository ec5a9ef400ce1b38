"""A damaged or missing segment: its dataset is failing, and everything else starts and runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from cluster_harness import ManualCluster, running_cluster

from eventually import eventually
from sparkless import Sparkless, sparkless
from tocsin.cluster.model import Dataset, Post
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.errors import Damaged, QueryFailed

Damage = Callable[[Path], object]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def other_columns(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), path)


def post(cluster: Sparkless, *users: str) -> None:
    body = json.dumps([{"user": user, "lat": 1.0, "lon": 2.0} for user in users]).encode()
    cluster.publish(Post("LocationFeed", body)).result(60)


def users(cluster: Sparkless) -> list[str]:
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Locations").id]
    snapshot = store.snapshot()
    try:
        return sorted(snapshot.table()["user"].to_pylist())
    finally:
        snapshot.release()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data cluster with two segments of Locations, that has stopped."""
    with sparkless(tmp_path / "data") as (cluster, _):
        post(cluster, "ann")
        post(cluster, "bob")
        cluster.execute(
            "CREATE CONTINUOUS CHANNEL Near(u string) { SELECT l.lat FROM Locations l, Reports r "
            "WHERE is_new(r) AND l.user = u };"
        )
    yield tmp_path / "data"


def segments(home: Path) -> list[Path]:
    return sorted((home / "segments" / "datasets").glob("*/*.parquet"))


@pytest.mark.parametrize("damage", [truncate, Path.unlink, other_columns])
def test_only_the_dataset_with_the_damaged_segment_and_its_channels_are_failing(home: Path, damage: Damage) -> None:
    victim = segments(home)[0]
    damage(victim)
    with sparkless(home) as (cluster, url):
        found = httpx.get(f"{url}/datasets/Locations").json()
        name = str(victim.relative_to(home / "segments"))
        assert (found["state"], found["damaged"]) == ("failing", [name]) and name in found["error"]
        assert httpx.get(f"{url}/datasets/Reports").json()["state"] == "ready"
        near, above = (httpx.get(f"{url}/channels/{each}").json() for each in ("Near", "Above"))
        assert near["state"] == "failing" and name in near["error"]
        assert (above["state"], above["error"]) == ("running", None)
        metrics = httpx.get(f"{url}/metrics").text
        assert 'tocsin_dataset_failing{dataset="Locations"} 1.0' in metrics
        assert 'tocsin_dataset_failing{dataset="Reports"} 0.0' in metrics
        assert 'tocsin_channel_failing{channel="Near"} 1.0' in metrics
        with pytest.raises(Damaged, match="REPAIR DATASET Locations WITH LOSS"):
            users(cluster)
        post(cluster, "cid")  # is stored all the same
        cluster.register_broker("b", "http://127.0.0.1:9/")
        cluster.subscribe("Above", "b", [[5]]).result()
        assert cluster.found("Above", ([5], [{"n": 7}])) == 1


def test_a_restored_file_repairs_the_dataset(home: Path) -> None:
    victim = segments(home)[0]
    copy = victim.read_bytes()
    truncate(victim)
    with sparkless(home) as (cluster, url):
        post(cluster, "cid")
        with pytest.raises(Damaged):
            cluster.execute("REPAIR DATASET Locations")
        victim.write_bytes(copy)
        cluster.maintenance.reload()
        assert users(cluster) == ["ann", "bob", "cid"]
        assert httpx.get(f"{url}/datasets/Locations").json()["state"] == "ready"
        post(cluster, "dan")
        assert users(cluster) == ["ann", "bob", "cid", "dan"]


def test_the_loss_of_a_segment_can_be_accepted(home: Path) -> None:
    one = segments(home)[0]
    lost = "ann" if b"ann" in one.read_bytes() else "bob"
    truncate(one)
    with sparkless(home) as (cluster, url):
        post(cluster, "cid")
        (outcome,) = cluster.execute("REPAIR DATASET Locations WITH LOSS")
        assert outcome.message == "dataset Locations can be read, without 1 lost segments"
        expected = sorted({"ann", "bob", "cid"} - {lost})
        assert users(cluster) == expected
        assert httpx.get(f"{url}/datasets/Locations").json()["damaged"] == []
    with sparkless(home) as (cluster, url):
        assert users(cluster) == expected
        assert httpx.get(f"{url}/datasets/Locations").json()["state"] == "ready"


def test_queries_and_channels_of_a_failing_dataset_say_why_and_run_after_the_repair(
    tmp_path: Path, spark_runtime: SparkRuntime
) -> None:
    with running_cluster(tmp_path, spark_runtime) as cluster:
        cluster.execute(
            """
            CREATE ACTIVE DATASET Bad (n bigint); CREATE FEED F; CONNECT FEED F TO DATASET Bad; START FEED F;
            CREATE DATASET Good (n bigint); INSERT INTO Good VALUES (5);
            CREATE CONTINUOUS CHANNEL C() { SELECT b.n FROM Bad b WHERE is_new(b) };
            CREATE BROKER b AT "http://127.0.0.1:9/";
            """
        )
        me = cluster.subscribed("C")
        cluster.post("F", {"n": 1})
        cluster.wait_results("C", me, 1)
        id = cluster.context.definitions.get(Dataset, "Bad").id
    (victim,) = (tmp_path / "segments" / "datasets" / str(id)).glob("*.parquet")
    truncate(victim)
    with running_cluster(tmp_path, spark_runtime) as cluster:
        with pytest.raises(Damaged, match=victim.name):
            cluster.rows("SELECT * FROM Bad")
        assert cluster.rows("SELECT n FROM Good") == [(5,)]
        cluster.post("F", {"n": 2})
        assert cluster.channel("C")["state"] == "failing"
        cluster.execute("REPAIR DATASET Bad WITH LOSS")
        assert cluster.wait_results("C", me, 2) == [{"n": 1}, {"n": 2}]
        eventually(lambda: cluster.channel("C")["state"], lambda state: state == "running")
        assert cluster.rows("SELECT n FROM Bad") == [(2,)]


def garble(path: Path) -> None:
    """The footer stays as it is."""
    third = path.stat().st_size // 3
    with path.open("r+b") as file:
        file.seek(third)
        file.write(b"\xff" * third)


def base_file(cluster: ManualCluster, dataset: str) -> Path:
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, dataset).id]
    assert not store.resident
    (segment,) = store.base
    return Path(cluster.context.config.segment_root) / segment.path


def test_a_base_file_that_is_damaged_while_spark_runs_makes_its_dataset_failing(
    tmp_path: Path, spark_runtime: SparkRuntime
) -> None:
    with running_cluster(tmp_path, spark_runtime, tail_rows=20) as cluster:
        cluster.execute(
            """
            CREATE ACTIVE DATASET Garbled (n bigint, text string); CREATE DATASET Keyed (n bigint) PRIMARY KEY n;
            INSERT INTO Garbled SELECT id, concat('number ', id) FROM range(3000);
            INSERT INTO Keyed SELECT id FROM range(3000);
            CREATE FEED F; CONNECT FEED F TO DATASET Garbled; START FEED F; CREATE BROKER b AT "http://127.0.0.1:9/";
            CREATE CONTINUOUS CHANNEL Found() { SELECT g.text, m.longest FROM Garbled g,
              (SELECT max(length(text)) AS longest FROM Garbled) m WHERE is_new(g) };
            CREATE REPETITIVE CHANNEL Idle() PERIOD duration("P1D") { SELECT g.n FROM Garbled g };
            """
        )
        cluster.maintenance.compact()
        garbled, keyed = base_file(cluster, "Garbled"), base_file(cluster, "Keyed")
        copy = garbled.read_bytes()
        garble(garbled)
        me = cluster.subscribed("Found")
        cluster.post("F", {"n": 3000, "text": "new"})
        for name in ("Found", "Idle"):
            found = eventually(lambda name=name: cluster.channel(name), lambda found: found["state"] == "failing")
            assert "REPAIR" not in found["error"] and garbled.name in found["error"]
        with pytest.raises(Damaged, match="REPAIR DATASET Garbled WITH LOSS"):
            cluster.rows("SELECT max(text) FROM Garbled")
        cluster.maintenance.reload()  # its footer is fine, its pages are not
        assert cluster.dataset("Garbled")["state"] == "failing" and cluster.dataset("Keyed")["state"] == "ready"

        keyed.unlink()
        with pytest.raises(Damaged, match=keyed.name):
            cluster.execute("INSERT INTO Keyed VALUES (7)")
        assert cluster.dataset("Keyed")["damaged"] == [str(keyed.relative_to(tmp_path / "segments"))]
        with pytest.raises(QueryFailed):  # a failure of the query is not one of the dataset
            cluster.rows("SELECT raise_error('x')")

        garbled.write_bytes(copy)
        cluster.execute("REPAIR DATASET Garbled; REPAIR DATASET Keyed WITH LOSS")
        assert cluster.wait_results("Found", me, 1) == [{"text": "new", "longest": 11}]
        assert cluster.rows("SELECT count(*) FROM Keyed") == [(0,)]
        assert cluster.dataset("Keyed")["state"] == cluster.dataset("Garbled")["state"] == "ready"


@pytest.mark.parametrize("damage", [truncate, Path.unlink, other_columns, garble])
def test_the_compaction_finds_a_damaged_base_file(tmp_path: Path, damage: Damage) -> None:
    with sparkless(tmp_path / "data", tail_rows=2) as (cluster, url):
        post(cluster, *(f"user {n}" for n in range(3000)))
        assert cluster.maintenance.compact() == 1
        (base,) = segments(tmp_path / "data")
        damage(base)
        post(cluster, *(f"user {n}" for n in range(3000)))
        assert cluster.maintenance.compact() == 0
        found = httpx.get(f"{url}/datasets/Locations").json()
        assert found["state"] == "failing" and base.name in found["error"]
        assert httpx.get(f"{url}/channels/Above").json()["state"] == "running"
        (outcome,) = cluster.execute("REPAIR DATASET Locations WITH LOSS")
        assert outcome.message == "dataset Locations can be read, without 1 lost segments"
        assert len(users(cluster)) == 3000


def same_rows(path: Path) -> None:
    """As many rows in other columns, in a file that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": list(range(pq.ParquetFile(path).metadata.num_rows))}), path)


@pytest.mark.parametrize("damage", [other_columns, same_rows])
def test_a_base_file_with_other_columns_is_found_before_it_is_read(tmp_path: Path, damage: Damage) -> None:
    with sparkless(tmp_path / "data", tail_rows=2) as (cluster, url):
        post(cluster, *(f"user {n}" for n in range(3000)))
        assert cluster.maintenance.compact() == 1
        store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Locations").id]
        cluster.context.check(store)
        (base,) = segments(tmp_path / "data")
        copy = base.read_bytes()
        damage(base)
        with pytest.raises(Damaged, match="REPAIR DATASET Locations WITH LOSS"):
            cluster.context.check(store)
        found = httpx.get(f"{url}/datasets/Locations").json()
        assert found["state"] == "failing" and base.name in found["error"]
        base.write_bytes(copy)
        cluster.execute("REPAIR DATASET Locations")
        cluster.context.check(store)
        assert httpx.get(f"{url}/datasets/Locations").json()["state"] == "ready"


def test_spark_does_not_read_the_columns_of_a_replaced_base_file_as_nulls(
    tmp_path: Path, spark_runtime: SparkRuntime
) -> None:
    with running_cluster(tmp_path, spark_runtime, tail_rows=20) as cluster:
        cluster.execute("CREATE DATASET D (n bigint); INSERT INTO D SELECT id FROM range(3000)")
        cluster.maintenance.compact()
        assert cluster.rows("SELECT sum(n) FROM D") == [(4_498_500,)]
        same_rows(base_file(cluster, "D"))
        with pytest.raises(Damaged, match="REPAIR DATASET D WITH LOSS"):
            cluster.rows("SELECT sum(n) FROM D")
        assert cluster.dataset("D")["state"] == "failing"
