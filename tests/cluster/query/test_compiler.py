"""Compiling a query: names, parameters, functions, ``is_new``, literals, and Spark's own language untouched."""

from __future__ import annotations

import datetime

import pytest
from query_views import PARAMETERS, QueryViews

from seeds import spread
from tocsin.cluster.model import Parameter
from tocsin.cluster.query.compiler import Use, compile_query, literal
from tocsin.cluster.query.spark_dialect import to_sql
from tocsin.errors import BodyRefused, ParseError, TypeMismatch


@pytest.fixture(scope="module")
def views(spark):
    views = QueryViews(spark)
    views.define("twice", (Parameter("x", "bigint"),), "SELECT x * 2")
    views.define("worst", (Parameter("what", "string"),), "SELECT max(r.sev) FROM Reports r WHERE r.etype = what")
    views.define("OfType", (Parameter("what", "string"),), "SELECT r.id, r.lat FROM Reports r WHERE r.etype = what")
    views.define("Close", (Parameter("a", "double"),), "SELECT h.name FROM Shelters h WHERE h.lat = a")
    views.define("Outer1", (Parameter("what", "string"),), "SELECT o.id, c.name FROM OfType(what) o, Close(o.lat) c")
    views.define("Loop", (), "SELECT * FROM Loop() x")
    views.define("Fresh", (), "SELECT r.id FROM Reports r WHERE is_new(r)")
    return views


def run(views, text, **options):
    return sorted(views.rows(compile_query(text, views, **options).render(views.view)), key=repr)


# Spark's language

LANGUAGE = [
    "SELECT transform(xs, x -> x + 1) a, filter(xs, (x, i) -> i > 0) b, aggregate(xs, 0L, (a, b) -> a + b) c"
    " FROM Reports",
    "SELECT map('a', 1)['a'] a, element_at(xs, 1) b, loc.city, named_struct('a', 1) c, struct(id, sev AS q) d"
    " FROM Reports"
    " WHERE size(xs) > 0",
    "SELECT id, x FROM Reports LATERAL VIEW OUTER explode(xs) t AS x",
    "SELECT r.id, x FROM Reports r, LATERAL explode(r.xs) t(x)",
    "SELECT r.id, h.name FROM Reports r LEFT JOIN LATERAL (SELECT name FROM Shelters h WHERE h.lat = r.lat) h",
    "SELECT etype, sev, count(*) c FROM Reports GROUP BY etype, sev WITH CUBE",
    "SELECT etype, sev, count(*) c, grouping(etype) g FROM Reports GROUP BY GROUPING SETS ((etype), (sev), ())",
    "SELECT etype, count(*) c FROM Reports GROUP BY ALL",
    "SELECT * FROM (SELECT etype, sev FROM Reports) PIVOT (max(sev) AS m FOR etype IN ('fire' AS f, 'flood'))",
    "SELECT id, sum(sev) OVER w s FROM Reports WINDOW w AS (PARTITION BY etype ORDER BY id ROWS BETWEEN 1 PRECEDING"
    " AND CURRENT ROW)",
    "SELECT * EXCEPT (xs, loc) FROM Reports",
    "SELECT timestamp '2020-01-01 00:00:00' + interval 1 day t, date '2020-01-01' d, interval '1' hour i",
    "SELECT sev::string a, try_cast('x' AS int) b, CAST(sev AS decimal(10, 2)) c, 'it''s' d, r'a\\n' e, 'a' 'b'"
    " f FROM Reports",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY sev) a, string_agg(etype) b, count(DISTINCT etype) c,"
    " first_value(sev) IGNORE NULLS d, count(*) FILTER (WHERE sev > 1) e FROM Reports",
    "SELECT a.id FROM Reports a LEFT SEMI JOIN Shelters b ON a.lat = b.lat",
    "SELECT a.id FROM Reports a LEFT ANTI JOIN Shelters b ON a.lat = b.lat",
    "SELECT * FROM Shelters a JOIN Shelters b USING (name, lat, lon)",
    "SELECT * FROM range(1, 10, 2) AS t(n)",
    "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, y)",
    "VALUES (1, 2), (3, 4)",
    "SELECT * FROM inline(array(struct(1, 'a'))) t(a, b)",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
    "SELECT 1 x UNION ALL SELECT 2 EXCEPT SELECT 1",
    "(SELECT id FROM Reports ORDER BY id LIMIT 1) UNION ALL (SELECT 5)",
    "SELECT id FROM Reports WHERE (id, sev) IN (SELECT 1L, 1L)",
    "SELECT CASE etype WHEN 'fire' THEN 1 ELSE 2 END c, 7 div 2 d, 1 <=> NULL e, log(2, 8) f, date_sub(date"
    " '2020-01-10', 1) g"
    " FROM Reports",
    "SELECT lag(sev) OVER (ORDER BY id) a, ntile(2) OVER (ORDER BY id) b FROM Reports",
    "SELECT id AS `a b`, 1 AS `select` FROM Reports",
    "SELECT /*+ BROADCAST(r) */ id FROM Reports r",
]


@pytest.mark.parametrize("text", spread(LANGUAGE, 3))
def test_spark_gives_what_it_gives_for_the_original(views, text):
    for name in ("Reports", "Shelters"):
        views.spark.sql(f"SELECT * FROM {name}_all").createOrReplaceTempView(name)
    assert run(views, text) == sorted(views.rows(text), key=repr)


# names


def test_a_cte_hides_a_dataset_of_the_same_name(views):
    query = compile_query("WITH Reports AS (SELECT 1 AS id) SELECT id FROM reports", views)
    assert query.uses == frozenset()
    assert views.rows(query.render(views.view)) == [(1,)]


def test_names_disregard_case_and_aliases_may_be_other_datasets_names(views):
    query = compile_query(
        "SELECT Shelters.id FROM rEPORTS Shelters, SHELTERS Reports WHERE Reports.lat = Shelters.lat", views
    )
    assert {use.relation.name for use in query.uses} == {"Reports", "Shelters"}
    assert sorted(views.rows(query.render(views.view))) == [(1,), (2,), (3,)]


def test_an_unknown_dataset_is_named_with_the_nearest_one(views):
    with pytest.raises(BodyRefused, match="Raports") as caught:
        compile_query("SELECT * FROM Raports", views)
    assert caught.value.hint == "did you mean Reports?"


@pytest.mark.parametrize(
    "text", ["SELECT FROM WHERE", "SELECT (1", "", "SELECT 1; SELECT 2", "SELECT 'open", "(" * 3000]
)
def test_an_unreadable_query_is_a_parse_error(views, text):
    with pytest.raises(ParseError):
        compile_query(text, views)


def test_a_parse_error_has_a_position(views):
    with pytest.raises(ParseError) as caught:
        compile_query("SELECT id\nFROM Reports\nWHERE )", views)
    assert (caught.value.line, caught.value.column) == (3, 7)


def test_two_results_of_one_name_are_refused(views):
    for text in (
        "SELECT id, sev AS ID FROM Reports",
        "SELECT * FROM Reports r, Shelters h",
        "SELECT r.*, lat FROM Reports r",
    ):
        with pytest.raises(BodyRefused, match="two columns"):
            compile_query(text, views)


# parameters


def test_a_parameter_shadows_a_column_but_not_a_qualified_name(views):
    both = (Parameter("etype"), Parameter("x", "bigint"))
    text = (
        "SELECT r.id, r.loc.etype, transform(r.xs, x -> x + 1) AS up FROM Reports r WHERE r.etype = etype AND r.sev = x"
    )
    assert run(views, text, parameters=both, values=["fire", 3]) == [(3, "z", [])]


def test_an_alias_shadows_a_parameter_in_order_by_and_group_by(views):
    text = "SELECT upper(r.etype) AS t, count(*) AS c FROM Reports r GROUP BY t ORDER BY t"
    found = run(views, text, parameters=PARAMETERS, values=["x", 1, 1.0, 1.0])
    assert found == [
        ("FIRE", 2),
        ("FLOOD", 1),
        ("QUAKE", 1),
        (None, 1),
    ]


def test_a_parameter_in_limit_is_refused(views):
    with pytest.raises(BodyRefused, match="LIMIT n"):
        compile_query("SELECT id FROM Reports LIMIT n", views, PARAMETERS)


def test_parameters_without_values_are_typed_nulls(views):
    query = compile_query("SELECT t AS a, n AS b FROM Reports", views, PARAMETERS)
    assert views.spark.sql(query.render(views.view)).dtypes == [("a", "string"), ("b", "bigint")]


VALUES = [
    ("x'; DROP TABLE y; --", "string"),
    ("back\\slash \\' \\n \" ` ${env:HOME} %s é \u2028 𝄞", "string"),
    ("line\nbreak\ttab\rreturn", "string"),
    (-5, "bigint"),
    (1.5e300, "double"),
    (True, "boolean"),
    (None, "int"),
    (datetime.date(2020, 2, 29), "date"),
    ([1, None, 3], "array<int>"),
    ([{"a": 1, "b": "it's ${x}"}], "array<struct<a:int,b:string>>"),
    (b"\x00\xff", "binary"),
]


@pytest.mark.parametrize(("value", "kind"), VALUES)
def test_a_literal_keeps_its_value(views, value, kind):
    (found,) = views.rows(f"SELECT {to_sql(literal(value, kind))}")[0]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        found = [item.asDict() for item in found]
    assert (bytes(found) if kind == "binary" else found) == value


def test_a_string_of_the_query_is_not_substituted(views):
    assert run(views, "SELECT '${env:HOME}' AS a") == [("${env:HOME}",)]


def test_the_number_of_values_is_checked(views):
    with pytest.raises(TypeMismatch):
        compile_query("SELECT t", views, PARAMETERS, values=[1])


# functions


def test_a_function_in_from_is_inlined(views):
    query = compile_query("SELECT f.id FROM OfType('fire') f", views)
    assert query.functions == {"OfType@1"}
    assert sorted(views.rows(query.render(views.view))) == [(1,), (3,)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id, twice(sev) AS d FROM Reports WHERE id = 3", [(3, 6)]),
        ("SELECT twice(twice(2)) AS d", [(8,)]),
        ("SELECT h.name, worst('fire') AS w FROM Shelters h WHERE name = 's1'", [("s1", 3)]),
        ("SELECT r.id, worst(r.etype) AS w FROM Reports r WHERE r.id < 3", [(1, 3), (2, 2)]),
        ("SELECT id, worst(etype) AS w FROM Reports WHERE id = 1", [(1, 3)]),
        ("SELECT h.id, c.name FROM Reports h, Close(h.lat) c WHERE h.id = 2", [(2, "s2")]),
        ("SELECT id, c.name FROM Reports, LATERAL Close(lat) c WHERE id = 2", [(2, "s2")]),
        ("SELECT x.id, x.name FROM Outer1('flood') x", [(2, "s2")]),
    ],
)
def test_functions_work_in_every_place(views, text, expected):
    assert run(views, text) == expected


def test_functions_take_parameters_of_a_channel(views):
    body = "SELECT x.id, x.name, twice(n) AS m FROM Outer1(t) x"
    assert views.together(body) == views.one_by_one(body) != []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT * FROM Loop() x", "calls itself"),
        ("SELECT OfType('a')", "2 columns"),
        ("SELECT * FROM OfType('a', 'b') x", "no table function"),
        ("SELECT r.id FROM Reports r, Shelters h, Close(lat) c", "must be qualified"),
    ],
)
def test_a_wrong_use_of_a_function_is_refused(views, text, reason):
    with pytest.raises(BodyRefused, match=reason):
        compile_query(text, views)


# is_new


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("SELECT r.id FROM Reports r WHERE is_new(r)", "new"),
        ("SELECT r.id FROM Reports r WHERE r.sev > 0 AND (is_new(r) AND r.id < 9)", "new"),
        ("SELECT r.id FROM Shelters h JOIN Reports r ON is_new(r) AND r.lat = h.lat", "new"),
        ("SELECT r.id FROM Shelters h LEFT JOIN Reports r ON is_new(r) AND r.lat = h.lat", "new"),
        ("SELECT r.id FROM Reports r WHERE is_new(r) OR r.sev = 1", "marked"),
        ("SELECT r.id, is_new(r) FROM Reports r", "marked"),
        ("SELECT r.id FROM Shelters h LEFT JOIN Reports r ON r.lat = h.lat WHERE is_new(r)", "marked"),
        ("SELECT r.id FROM Reports r WHERE NOT is_new(r)", "marked"),
        ("SELECT f.id FROM Fresh() f", "new"),
    ],
)
def test_is_new_reads_new_rows_or_marks_them(views, text, mode):
    query = compile_query(text, views, channel=True)
    assert {use.mode for use in query.uses if use.relation.name == "Reports"} == {mode}
    views.rows(query.render(views.view))


def test_a_star_does_not_include_the_mark_of_new_rows(views):
    text = "SELECT * FROM Reports r WHERE is_new(r) OR r.id = 1"
    frame = views.spark.sql(compile_query(text, views, channel=True).render(views.view))
    assert frame.columns == ["id", "etype", "lat", "lon", "sev", "xs", "loc"]
    assert sorted(row.id for row in frame.collect()) == [1, 3, 4, 5]


def test_a_table_joined_with_itself_is_new_on_one_side_only(views):
    query = compile_query(
        "SELECT a.id FROM Reports a JOIN Reports b ON a.etype = b.etype WHERE is_new(a)", views, channel=True
    )
    relation = views.relations["reports"]
    assert query.uses == {Use(relation, "new"), Use(relation, "all")}
    assert sorted(views.rows(query.render(views.view))) == [(3,), (3,), (4,)]


@pytest.mark.parametrize(
    ("text", "channel"),
    [
        ("SELECT id FROM Reports r WHERE is_new(r)", False),
        ("SELECT name FROM Shelters h WHERE is_new(h)", True),
        ("SELECT id FROM Reports r WHERE is_new(x)", True),
        ("SELECT id FROM Reports r WHERE is_new(r.id)", True),
        ("SELECT id FROM Reports r WHERE is_new()", True),
        ("SELECT id FROM (SELECT * FROM Reports) r WHERE is_new(r)", True),
        ("WITH r AS (SELECT * FROM Reports) SELECT id FROM r WHERE is_new(r)", True),
        ("SELECT current_channel_time()", False),
        ("SELECT previous_channel_time(1)", True),
    ],
)
def test_a_wrong_is_new_or_time_is_refused_with_a_hint(views, text, channel):
    with pytest.raises(BodyRefused):
        compile_query(text, views, channel=channel)


def test_channel_times_are_timestamps(views):
    query = compile_query("SELECT current_channel_time() AS a, previous_channel_time() AS b", views, channel=True)
    text = query.render(views.view, now=1.5, previous=0.25)
    assert views.rows(f"SELECT unix_micros(a), unix_micros(b) FROM ({text})") == [(1_500_000, 250_000)]
