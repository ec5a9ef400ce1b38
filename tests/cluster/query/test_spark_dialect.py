"""The function names that bodies are checked against are those of the running Spark."""

from __future__ import annotations

import pytest

from tocsin.cluster.query.spark_dialect import AGGREGATES, GENERATORS


@pytest.fixture(scope="module")
def groups(spark):
    """The builtin functions of this Spark by their group, as in its documentation."""
    utils = spark.sparkContext._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    found: dict[str, set[str]] = {}
    for each in utils.listBuiltinFunctionInfos():
        found.setdefault(each.getGroup(), set()).add(each.getName())
    return found


def test_the_list_of_aggregates_is_the_list_of_the_running_spark(groups):
    assert groups["agg_funcs"] == AGGREGATES


def test_every_generator_of_the_running_spark_is_in_the_list(groups):
    about_spark = {"collations", "sql_keywords"}  # bodies read data: they may not call these
    assert groups["generator_funcs"] - about_spark <= GENERATORS <= set().union(*groups.values())
