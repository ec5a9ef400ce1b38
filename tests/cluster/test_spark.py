from __future__ import annotations


def test_a_query_runs(spark):
    assert spark.sql("select 1 a").toArrow().to_pylist() == [{"a": 1}]
