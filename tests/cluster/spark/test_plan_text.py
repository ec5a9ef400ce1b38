from __future__ import annotations

import pytest
from query_views import QueryViews

from tocsin.cluster.query.compiler import compile_query
from tocsin.cluster.spark.plan_check import check_plan
from tocsin.cluster.spark.plan_inspector import PlanInspector
from tocsin.cluster.spark.plan_text import PlanText
from tocsin.errors import BodyRefused


@pytest.fixture(scope="module")
def views(spark):
    return QueryViews(spark)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.id, x FROM Reports r LATERAL VIEW explode(xs) t AS x",
        "WITH c AS (SELECT id FROM Reports) SELECT a.id FROM c a JOIN c b ON a.id = b.id",
        "SELECT id FROM Reports WHERE id > (SELECT count(*) FROM Shelters) ORDER BY id LIMIT 3",
        "SELECT r.id FROM Reports r, LATERAL (SELECT * FROM Shelters h WHERE h.lat = r.lat) h",
        "SELECT 'a\n+- Command b' AS x, count(*) FROM Reports GROUP BY 1",
    ],
)
def test_the_text_of_a_plan_names_its_parts(views, text):
    frame = views.spark.sql(compile_query(text, views).render(views.view))
    found, known = PlanText.of(frame), PlanInspector(frame)
    # EXPLAIN shows a view of the query around it, and what is in a string.
    assert known.operators <= found.operators <= known.operators | {"SubqueryAlias", "View", "Project", "Command"}
    assert found.leaves == known.leaves


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TRANSFORM(id) USING 'cat' AS (x) FROM Reports_all",
        "SELECT '== Optimized Logical Plan ==' AS x, '\n== Optimized Logical Plan ==\n' AS y",
    ],
)
def test_what_is_not_allowed_is_refused_in_the_text_of_a_plan(views, text):
    with pytest.raises(BodyRefused, match=r"not allowed|cannot be read"):
        check_plan(views.spark.sql(text), private_api=False)


def test_files_and_cached_rows_pass_the_check_of_the_text(views, tmp_path):
    views.spark.range(3).write.parquet(str(tmp_path / "p"))
    views.spark.range(3).write.csv(str(tmp_path / "c"))
    frame = views.spark.read.parquet(str(tmp_path / "p"))
    check_plan(frame, private_api=False)
    check_plan(frame.cache().filter("id > 1"), private_api=False)
    frame.unpersist()
    with pytest.raises(BodyRefused, match="csv, which is not a dataset"):
        check_plan(views.spark.read.csv(str(tmp_path / "c")), private_api=False)


def test_a_text_that_is_no_plan_is_refused():
    with pytest.raises(BodyRefused, match="cannot be read"):
        PlanText.parse("== Physical Plan ==")


def test_a_line_of_a_string_hides_no_step_and_no_relation():
    found = PlanText.parse(
        "== Analyzed Logical Plan ==\nx: string\nProject [a\n+- InMemoryRelation b AS x#1]\n"
        ":     +- Relation [c#2] csv\n      +- ScriptTransformation cat\n== Optimized Logical Plan ==\n"
    )
    assert found.operators == {"InMemoryRelation", "LogicalRelation", "ScriptTransformation"}
    assert ("LogicalRelation", "csv") in found.leaves
