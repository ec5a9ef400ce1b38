"""What a body may not do, by its syntax and by Spark's plan."""

from __future__ import annotations

import pytest
from query_views import QueryViews

from tocsin.cluster.query.compiler import compile_query
from tocsin.cluster.spark.plan_check import check_plan
from tocsin.errors import BodyRefused, ParseError, UserError


@pytest.fixture(scope="module")
def views(spark):
    return QueryViews(spark)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * FROM parquet.`/etc`", "reads files"),
        ("SELECT * FROM PARQUET.`x`", "reads files"),
        ("SELECT * FROM csv.`file:///etc/passwd`", "reads files"),
        ("SELECT * FROM text.`/etc/passwd` t WHERE EXISTS (SELECT 1)", "reads files"),
        ("SELECT (SELECT max(value) FROM text.`/etc/passwd`)", "reads files"),
        ("SELECT * FROM Reports WHERE id IN (SELECT 1 FROM json.`/x`)", "reads files"),
        ("WITH c AS (SELECT * FROM orc.`/x`) SELECT * FROM c", "reads files"),
        ("SELECT * FROM `/etc/passwd`", "reads files"),
        ("SELECT * FROM IDENTIFIER('Reports')", "names at run time"),
        ("SELECT IDENTIFIER('id') FROM Reports", "names at run time"),
        ("SELECT * FROM default.Reports", "not a dataset"),
        ("SELECT * FROM spark_catalog.default.Reports", "not a dataset"),
        ("SELECT * FROM information_schema.tables", "not a dataset"),
        ("SELECT * FROM read_files('/x')", "no table function"),
        ("SELECT * FROM python_worker_logs()", "system"),
        ("SELECT * FROM nothing(1)", "no table function"),
        ("SELECT * FROM Nowhere", "no dataset"),
        ("SELECT reflect('java.lang.System', 'exit', 0)", "JVM"),
        ("SELECT `ReFlEcT`('java.lang.System', 'getenv', 'HOME')", "JVM"),
        ("SELECT java_method('java.lang.Thread', 'sleep', 1000L)", "JVM"),
        ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME')", "JVM"),
        ("SELECT id FROM Reports ORDER BY reflect('a', 'b')", "JVM"),
        ("SELECT transform(xs, x -> reflect('a', 'b')) FROM Reports", "JVM"),
        ("SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')", "JVM"),
        ("SELECT spark_catalog.default.f(1)", "qualified name"),
        ("SELECT input_file_name() FROM Reports", "file names"),
        ("SELECT from_protobuf(xs, 'a', '/x') FROM Reports", "reads files"),
        ("SELECT TRANSFORM(id) USING 'cat' AS (x) FROM Reports", "script"),
        ("INSERT INTO Reports SELECT 1", "only a query"),
        ("DELETE FROM Reports", "only a query"),
        ("CREATE TABLE x AS SELECT 1", "only a query"),
        ("DROP TABLE x", "only a query"),
        ("SET spark.sql.ansi.enabled = false", "only a query"),
        ("SHOW TABLES", "only a query"),
        ("SELECT :x", "marker"),
        ("SELECT ?", "marker"),
        ("SELECT id AS _tocsin_s FROM Reports", "reserved"),
        ("SELECT `_TOCSIN_id` FROM Reports", "reserved"),
        ("SELECT id AS `${env:HOME}` FROM Reports", "variable"),
        ("SELECT * FROM Reports VERSION AS OF 1", "not possible|cannot be read"),
        ("SELECT * FROM Reports r, Shelters r", "two tables"),
    ],
)
def test_a_body_that_reaches_outside_is_refused_with_the_reason(views, text, reason):
    with pytest.raises(UserError, match=reason):
        compile_query(text, views, channel=True)


@pytest.mark.parametrize(
    "text", ["CACHE TABLE x", "EXPLAIN SELECT 1", "SELECT 1 INTO x", "MERGE INTO a USING b ON true", "USE x"]
)
def test_commands_are_not_queries(views, text):
    with pytest.raises((BodyRefused, ParseError)):
        compile_query(text, views)


def test_assertions_and_random_functions_are_allowed(views):
    query = compile_query("SELECT id, rand() AS r, uuid() AS u, assert_true(id > 0) AS a FROM Reports", views)
    assert len(views.rows(query.render(views.view))) == 5


@pytest.mark.parametrize(
    "text",
    [
        "SELECT reflect('java.lang.Math', 'max', 1, 2)",
        "SELECT id FROM Reports_all WHERE id > (SELECT int(reflect('java.lang.Math', 'max', 1, 2)))",
        "SELECT id FROM Reports_all r WHERE EXISTS (SELECT 1 FROM Shelters_all h WHERE h.lat = r.lat"
        " AND h.name > java_method('java.util.UUID', 'randomUUID'))",
        "WITH c AS (SELECT reflect('java.util.UUID', 'randomUUID') AS a) SELECT * FROM c x JOIN c y ON x.a = y.a",
        "SELECT input_file_name() FROM Reports_all",
        "SELECT user",
        "SELECT id FROM Reports_all WHERE etype = session_user",
        "SELECT from_xml('<p/>', 'a STRING')",
        "SELECT xpath_string('<a/>', 'a')",
        "SELECT * FROM sql_keywords()",
        "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM Reports_all",
    ],
)
def test_what_is_not_allowed_is_refused_in_a_plan(views, text):
    with pytest.raises(BodyRefused, match="not allowed"):
        check_plan(views.spark.sql(text))


def test_a_relation_that_was_not_given_is_refused_by_its_plan(views):
    with pytest.raises(BodyRefused, match="not a dataset"):
        check_plan(views.spark.sql("SHOW TABLES"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.id, x FROM Reports r LATERAL VIEW explode(xs) t AS x",
        "WITH c AS (SELECT id FROM Reports) SELECT a.id FROM c a JOIN c b ON a.id = b.id",
        "SELECT n FROM range(3) AS t(n)",
        "SELECT 1 AS x",
        "SELECT r.id FROM Reports r, LATERAL (SELECT * FROM Shelters h WHERE h.lat = r.lat) h",
        "SELECT r.id, h.name FROM Reports r JOIN Shelters h ON within(r.lat, r.lon, h.lat, h.lon, 1000)",
        "SELECT r.id, h.name FROM Reports r, LATERAL (SELECT h.name FROM Shelters h"
        " ORDER BY distance(h.lat, h.lon, r.lat, r.lon) LIMIT 2) h",
    ],
)
def test_a_permitted_body_passes_the_check_of_the_plan(views, text):
    check_plan(views.spark.sql(compile_query(text, views).render(views.view)))


def test_a_parquet_file_passes_the_check_of_the_plan(views, tmp_path):
    views.spark.range(3).write.parquet(str(tmp_path / "p"))
    frame = views.spark.read.parquet(str(tmp_path / "p"))
    check_plan(frame)
    check_plan(frame.cache().filter("id > 1"))
    frame.unpersist()
