"""Makes the archive of Spark's classes before the first test: with it, each of the JVMs that tests start takes a third
of the CPU time. Run as a script; it ends at once if there is an archive."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from cluster_harness import Listener, ManualCluster

from sparkmaster import SHORT_LIVED
from tocsin.cluster.spark.cds_archive import CdsArchive
from tocsin.cluster.spark.java import find_java
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.config import ClusterConfig

STATEMENTS = """
CREATE ACTIVE DATASET Reports (id string NOT NULL, kind string, lat double, lon double, at timestamp) PRIMARY KEY (id);
CREATE DATASET Shelters (name string NOT NULL, lat double, lon double) PRIMARY KEY (name);
CREATE FEED Posts; CONNECT FEED Posts TO DATASET Reports; START FEED Posts;
CREATE FEED Files WITH {"type": "file", "path": "%s", "format": "json", "trigger": 0.2};
CONNECT FEED Files TO DATASET Reports; START FEED Files;
CREATE REPETITIVE CHANNEL Near(kind string, lat double, lon double) PERIOD duration("PT1H") {
  SELECT r.id, h.name FROM Reports r,
    LATERAL (SELECT s.name FROM Shelters s ORDER BY distance(s.lat, s.lon, r.lat, r.lon), s.name LIMIT 2) h
  WHERE is_new(r) AND r.kind = kind AND within(r.lat, r.lon, lat, lon, 1000)
};
CREATE CONTINUOUS CHANNEL OfKind(kind string) { SELECT r.id FROM Reports r WHERE is_new(r) AND r.kind = kind };
"""
QUERIES = [
    "SELECT kind, count(*) AS c, max(lat) AS m FROM Reports GROUP BY kind ORDER BY kind",
    "SELECT r.id, s.name FROM Reports r LEFT JOIN Shelters s ON within(r.lat, r.lon, s.lat, s.lon, 500)",
    "SELECT id, row_number() OVER (PARTITION BY kind ORDER BY lat) AS n FROM Reports",
]


def make(folder: Path) -> None:
    """A data cluster that does a little of everything writes the archive when it ends."""
    (folder / "in").mkdir()
    readable = (str(folder / "in"),)
    config = ClusterConfig(home=str(folder / "home"), master="local[2]", load_paths=readable, **SHORT_LIVED)
    runtime = SparkRuntime(config)
    runtime.start()
    cluster = ManualCluster(config, runtime)
    cluster.start()
    cluster.wait_ready(500)
    cluster.execute(STATEMENTS % (folder / "in"))
    cluster.register_broker("b", Listener().url)
    me = cluster.subscribed("OfKind", "fire")
    cluster.subscribed("Near", "fire", 1.0, 1.0)
    cluster.execute("INSERT INTO Shelters VALUES ('s', 1.0, 1.0);")
    cluster.post("Posts", {"id": "a", "kind": "fire", "lat": 1.0, "lon": 1.0, "at": "2026-01-01T00:00:00Z"})
    (folder / "b.json").write_text(json.dumps({"id": "b", "kind": "fire"}))
    (folder / "b.json").rename(folder / "in" / "b.json")
    cluster.wait_results("OfKind", me, 2)
    cluster.run_channel("Near")
    for query in QUERIES:
        cluster.query(query)
    cluster.close()
    # Writing takes minutes on a busy machine.
    runtime.stop(600)


if __name__ == "__main__" and CdsArchive(find_java(), Path(pyspark.__file__).parent).path is None:
    with TemporaryDirectory(prefix="tocsin-archive-") as name:
        make(Path(name))
