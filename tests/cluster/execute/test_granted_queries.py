"""Queries of principals who may read some datasets only, on Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_harness import ManualCluster, running_cluster

from tocsin.cluster.spark.session import SparkRuntime
from tocsin.errors import Forbidden
from tocsin.identity.grants import ANONYMOUS, PART, user

ANN = user({"sub": "ann"}, ["analysts"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_runtime: SparkRuntime) -> Iterator[ManualCluster]:
    with running_cluster(tmp_path_factory.mktemp("granted"), spark_runtime, anonymous="none") as made:
        made.execute("""
            CREATE DATASET Public (n int); INSERT INTO Public VALUES (1), (2);
            CREATE DATASET Secret (n int); INSERT INTO Secret VALUES (42);
            CREATE FUNCTION twice(x int) { SELECT n * 2 AS n FROM Public WHERE n = x };
            CREATE FUNCTION peek() { SELECT n FROM Secret };
            CREATE ROLE analysts; GRANT SELECT ON DATASET public TO Analysts;
        """)
        yield made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT sum(n) AS n FROM PUBLIC", [{"n": 3}]),
        ("SELECT n FROM twice(2)", [{"n": 4}]),
        ("WITH Secret AS (SELECT 7 AS n) SELECT n FROM Secret", [{"n": 7}]),
        ("SELECT 1 AS n", [{"n": 1}]),
    ],
)
def test_a_granted_dataset_is_read(cluster: ManualCluster, sql: str, rows: list[dict[str, int]]) -> None:
    assert cluster.query(sql, ANN).to_pylist() == rows
    (outcome,) = cluster.run(sql, principal=ANN)
    assert outcome.table is not None and outcome.table.to_pylist() == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM Secret",
        "SELECT * FROM `secret`",
        "SELECT * FROM Public UNION ALL SELECT * FROM Secret",
        "SELECT (SELECT max(n) FROM Secret) AS n FROM Public",
        "SELECT n FROM Public WHERE n IN (SELECT n FROM Secret)",
        "SELECT p.n FROM Public p, LATERAL (SELECT s.n FROM Secret s WHERE s.n > p.n) x",
        "WITH x AS (SELECT * FROM Secret) SELECT 1 AS one",
        "SELECT nothing FROM Secret",
        "SELECT * FROM peek()",
        "SELECT * FROM catalog.grants",
        "SELECT * FROM NoSuchDataset",
    ],
)
def test_anything_else_is_forbidden_however_it_is_written(cluster: ManualCluster, sql: str) -> None:
    for principal in (ANN, ANONYMOUS, PART):
        with pytest.raises(Forbidden) as caught:
            cluster.query(sql, principal)
        assert "42" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO Public VALUES (3)",
        "DELETE FROM Public",
        "CREATE DATASET d (a int)",
        "DROP DATASET Public",
        "GRANT ADMIN TO analysts",
        "REVOKE SELECT ON DATASET Public FROM analysts",
        "SHOW GRANTS",
        "CREATE ROLE r",
    ],
)
def test_every_other_statement_needs_admin(cluster: ManualCluster, statement: str) -> None:
    with pytest.raises(Forbidden, match="ADMIN"):
        list(cluster.run(statement, principal=ANN))


def test_a_script_stops_at_the_statement_that_is_forbidden(cluster: ManualCluster) -> None:
    outcomes = cluster.run("SELECT 1 AS n; DROP DATASET Public; SELECT 2 AS n", principal=ANN)
    assert next(outcomes).statement == 1
    with pytest.raises(Forbidden) as caught:
        next(outcomes)
    assert caught.value.fields["statement"] == 2
