"""Every function and relation of the running Spark is allowed or refused on purpose."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException
from query_views import QueryViews

from tocsin.cluster.query import allow_list
from tocsin.cluster.query.compiler import compile_query
from tocsin.cluster.spark.plan_check import check_plan
from tocsin.errors import BodyRefused, TocsinError

_GRAMMAR = "org.apache.spark.sql.catalyst.parser.SqlBaseParser"


@pytest.fixture(scope="module")
def views(spark):
    return QueryViews(spark)


@pytest.fixture(scope="module")
def functions(spark):
    """(name, class, group, examples) of every function and table function of this Spark."""
    jvm = spark.sparkContext._jvm
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    found = []
    for registry in (analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()):
        names = registry.listFunction().iterator()
        while names.hasNext():
            name = names.next()
            info = registry.lookupFunction(name).get()
            kind = info.getClassName().rpartition(".")[2]
            found.append((name.funcName(), kind, info.getGroup(), info.getExamples()))
    return found


def test_every_function_of_the_running_spark_is_in_one_table(spark, functions):
    shown = {row.function for row in spark.sql("SHOW ALL FUNCTIONS").collect()}
    shown = {name for name in shown if not name.startswith(f"{spark.catalog.currentDatabase()}.")}
    ours = {name for family in ("Tocsin", "syntax") for name in allow_list.FAMILIES[family].split()} | {"identifier"}
    known = shown | {name for name, *_ in functions}
    assert (allow_list.ALLOWED | set(allow_list.REFUSED)) - ours == known - ours
    assert not allow_list.ALLOWED & set(allow_list.REFUSED)


def test_no_function_is_in_two_families():
    names = [name for family in allow_list.FAMILIES.values() for name in family.split()]
    assert len(names) == len(set(names))


def test_the_list_of_aggregates_is_the_list_of_the_running_spark(functions):
    assert {name for name, _, group, _ in functions if group == "agg_funcs"} == allow_list.AGGREGATES


def test_every_generator_of_the_running_spark_is_in_the_list(functions):
    generators = {name for name, _, group, _ in functions if group == "generator_funcs"}
    assert generators - set(allow_list.REFUSED) <= allow_list.GENERATORS <= {name for name, *_ in functions}


def test_the_classes_of_refused_functions_are_refused_in_the_plan_and_no_others(functions):
    refused = {kind for name, kind, *_ in functions if name in allow_list.REFUSED}
    allowed = {kind for name, kind, *_ in functions if name in allow_list.ALLOWED}
    assert refused <= allow_list.CLASSES
    assert not allow_list.CLASSES & allowed


def _examples(text):
    return [each.strip() for each in re.findall(r"^\s*> (SELECT.*?);\s*$", text, flags=re.M | re.S)]


def test_spark_s_own_examples_of_refused_functions_are_refused(views, functions):
    tried = [(name, each) for name, _, _, text in functions if name in allow_list.REFUSED for each in _examples(text)]
    assert len(tried) > 25
    for name, text in tried:
        with pytest.raises(TocsinError, match=f"the function {name}|the function .* (reads|calls)"):
            compile_query(text, views)


def test_spark_s_own_examples_of_allowed_functions_are_not_refused(views, functions):
    """By their text all of them; by their plans some of each group, because analysing a thousand takes a minute."""
    compiled, passed = {}, 0
    for name, _, group, text in sorted(functions):
        for each in _examples(text) if name in allow_list.ALLOWED else []:
            try:
                compiled.setdefault(group, []).append(compile_query(each, views))
            except TocsinError as error:  # sqlglot does not read a few of them
                assert "function" not in error.message, each
    assert sum(map(len, compiled.values())) > 1_000
    for queries in compiled.values():
        for query in queries[:: 1 + len(queries) // 4]:
            try:
                frame = views.spark.sql(query.render(views.view))
            except PySparkException:
                continue  # some types need a setting
            check_plan(frame)
            passed += 1
    assert passed > 70


@pytest.mark.parametrize("name", ["made_up", "`made up`", "`+`.made_up", "http_request", "read_files"])
def test_a_function_in_no_table_is_refused_with_what_to_do(views, name):
    with pytest.raises(BodyRefused) as refused:
        compile_query(f"SELECT {name}(id) AS x FROM Reports", views)
    assert "no function" in refused.value.message or "qualified" in refused.value.message
    assert "CREATE FUNCTION" in refused.value.hint or "." in name
    with pytest.raises(BodyRefused, match=r"no table function|not a dataset|reads"):
        compile_query(f"SELECT * FROM {name}(1)", views)


#: For each kind of relation in Spark's grammar: a query, and whether queries may read it.
RELATIONS = {
    "AliasedQueryContext": ("SELECT * FROM (SELECT 1 AS x) t", True),
    "AliasedRelationContext": ("SELECT a.id FROM (Reports a JOIN Shelters b ON a.lat = b.lat)", True),
    "InlineTableDefault2Context": ("SELECT * FROM VALUES (1), (2) AS t(x)", True),
    "TableNameContext": ("SELECT id FROM Reports", True),
    "TableValuedFunctionContext": ("SELECT * FROM range(3)", True),
    "StreamRelationContext": ("SELECT * FROM STREAM Reports", False),
    "UnnestTableContext": ("SELECT * FROM UNNEST(array(1, 2))", False),
    "ChangelogTableNameContext": ("SELECT * FROM Reports CHANGES FROM VERSION 1", False),
    "JsonTableRelationContext": ("SELECT * FROM JSON_TABLE('[1]', '$' COLUMNS (a INT PATH '$'))", False),
}


def test_every_kind_of_relation_in_spark_s_grammar_is_allowed_or_refused(views):
    jvm = views.spark.sparkContext._jvm
    grammar = jvm.java.lang.Class.forName(_GRAMMAR, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    kinds = {
        each.getSimpleName()
        for each in grammar.getDeclaredClasses()
        if each.getSuperclass().getSimpleName() == "RelationPrimaryContext"
    }
    assert kinds == set(RELATIONS)
    for text, allowed in RELATIONS.values():
        if allowed:
            check_plan(views.spark.sql(compile_query(text, views).render(views.view)))
        else:
            with pytest.raises(TocsinError):
                compile_query(text, views)
