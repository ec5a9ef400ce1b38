"""The k nearest rows are those of brute force, in the same order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from query_views import TABLES, QueryViews, distance_m
from test_geodesy import places

from seeds import few
from tocsin.cluster.query.compiler import compile_query


@pytest.fixture(scope="module")
def points():
    users = [(i, *p) for i, p in enumerate(places(150, 3))] + [(999, None, 1.0)]
    homes = [(f"h{i}", *p, i % 3) for i, p in enumerate(places(60, 4))] + [("nowhere", None, 2.0, 0)]
    homes += [("twin b", 10.0, 10.0, 1), ("twin a", 10.0, 10.0, 1)]
    return [*users, (1000, 10.0, 10.001)], homes


@pytest.fixture(scope="module")
def views(spark, points):
    users, homes = points
    tables = dict(TABLES)
    tables["Users"] = pa.table(dict(zip(("id", "lat", "lon"), map(list, zip(*users, strict=True)), strict=True)))
    tables["Homes"] = pa.table(
        dict(zip(("name", "lat", "lon", "kind"), map(list, zip(*homes, strict=True)), strict=True))
    )
    return QueryViews(spark, tables)


def brute(points, k, keep=lambda home: True):
    users, homes = points
    found = {}
    for i, lat, lon in users:
        near = [(distance_m(lat, lon, h[1], h[2]), h[0]) for h in homes if keep(h)]
        found[i] = sorted(item for item in near if item[0] is not None)[:k]
    return found


def chosen(views, query):
    text = compile_query(query, views, channel=True).render(views.view)
    found = {}
    for user, name, distance in views.rows(text):
        found.setdefault(user, []).append((distance, name))
    return found, text


def same(found, expected):
    """The same distances; names may differ where Java and Python round a tie differently."""
    assert found.keys() == {user for user, near in expected.items() if near}
    for user, near in found.items():
        assert [d for d, _ in near] == pytest.approx([d for d, _ in expected[user]], rel=1e-9, abs=1e-3)
        assert len({name for _, name in near}) == len(near)


@pytest.mark.parametrize("k", few([3, 1, 1000], 1))
def test_each_point_gets_its_k_nearest_in_order(views, points, k):
    query = (
        "SELECT u.id, h.name, h.d FROM Users u, LATERAL (SELECT h.name, distance(h.lat, h.lon, u.lat, u.lon) AS d"
        f" FROM Homes h ORDER BY distance(h.lat, h.lon, u.lat, u.lon), h.name LIMIT {k}) h"
    )
    found, text = chosen(views, query)
    same(found, brute(points, k))
    assert "array_sort" in text


#: Middles of cities: in between, at the date line, near a pole, and at the equator.
MIDDLES = [(48.1, 11.5), (-17.0, 179.999), (89.99, 20.0), (0.0, 0.0)]


@pytest.mark.parametrize("middle", few(MIDDLES, 1))
def test_in_the_middle_of_a_city_there_are_many_candidates_and_the_nearest_of_them_are_chosen(spark, middle):
    """Hundreds of rows a cell, few of which are compared exactly, also if many are equally far or at one place."""
    rng = random.Random(5)

    def around(count, spread):
        return [
            (middle[0] + rng.uniform(-spread, spread) / 2, middle[1] + rng.uniform(-spread, spread))
            for _ in range(count)
        ]

    homes = [(f"h{n:03}", *place, 0) for n, place in enumerate(around(250, 0.02))]
    # A ring of the same distance but for rounding, and the same place many times over.
    homes += [(f"r{n:03}", middle[0], middle[1] + (-1) ** n * 0.001 * (1 + n // 2 * 1e-13), 0) for n in range(40)]
    homes += [(f"t{n:03}", *middle, 0) for n in range(20)]
    users = [(n, *place) for n, place in enumerate([middle, homes[0][1:3], *around(60, 0.02)])]
    tables = {
        "People": pa.table(dict(zip(("id", "lat", "lon"), map(list, zip(*users, strict=True)), strict=True))),
        "Refuges": pa.table(
            dict(zip(("name", "lat", "lon", "kind"), map(list, zip(*homes, strict=True)), strict=True))
        ),
    }
    city = QueryViews(spark, TABLES | tables)
    for k in (3, 40):
        query = (
            "SELECT u.id, h.name, h.d FROM People u, LATERAL (SELECT h.name, distance(h.lat, h.lon, u.lat, u.lon) AS d"
            f" FROM Refuges h ORDER BY distance(h.lat, h.lon, u.lat, u.lon), h.name LIMIT {k}) h"
        )
        found, _ = chosen(city, query)
        expected = brute((users, homes), k)
        same(found, expected)
        assert found[0] == [(0.0, f"t{n:03}") for n in range(min(k, 20))] + [(d, n) for d, n in found[0][20:]]


def test_a_condition_on_the_table_comes_before_the_choice(views, points):
    query = (
        "SELECT u.id, h.name, h.d FROM Users u, LATERAL (SELECT *, distance(u.lat, u.lon, lat, lon) AS d"
        " FROM Homes h WHERE h.kind = 1 ORDER BY d, name LIMIT 2) h"
    )
    found, text = chosen(views, query)
    same(found, brute(points, 2, lambda home: home[3] == 1))
    assert "array_sort" in text


def test_ties_follow_the_further_keys_in_their_direction(views):
    query = (
        "SELECT h.name FROM Users u, LATERAL (SELECT h.name FROM Homes h ORDER BY distance(h.lat, h.lon, u.lat, u.lon),"
        " h.name {} LIMIT 1) h WHERE u.id = 1000"
    )
    up = compile_query(query.format("ASC"), views).render(views.view)
    down = compile_query(query.format("DESC"), views).render(views.view)
    assert (views.rows(up), views.rows(down)) == ([("twin a",)], [("twin b",)])


BODIES = [
    "SELECT r.id, h.name FROM Reports r, LATERAL (SELECT h.name, h.lat FROM Shelters h"
    " ORDER BY distance(h.lat, h.lon, r.lat, r.lon) LIMIT 2) h WHERE r.etype = t",
    "SELECT * EXCEPT (r.lat, r.lon) FROM Reports r, LATERAL (SELECT *, distance(h.lat, h.lon, r.lat, r.lon) AS d"
    " FROM Shelters h ORDER BY d, h.name DESC LIMIT 2) h WHERE r.etype = t AND is_new(r)",
    "SELECT h.name, h.lat FROM Shelters h ORDER BY distance(h.lat, h.lon, plat, plon) LIMIT 2",
    "SELECT h.name, distance(h.lat, h.lon, plat, plon) AS d FROM Shelters h WHERE h.name > 's1'"
    " ORDER BY distance(plat, plon, h.lat, h.lon), h.name LIMIT 5",
    "SELECT r.id, h.name FROM Reports r LEFT JOIN LATERAL (SELECT h.name FROM Shelters h WHERE h.name = 'none'"
    " ORDER BY distance(h.lat, h.lon, r.lat, r.lon) LIMIT 2) h ON true WHERE r.etype = t",
    "SELECT r.id, h.name FROM Reports r, LATERAL (SELECT h.name FROM Shelters h WHERE h.name <> concat('s', r.id)"
    " ORDER BY distance(h.lat, h.lon, r.lat, r.lon) LIMIT 2) h WHERE r.etype = t",
]


@pytest.mark.parametrize("body", few(BODIES[1:] + BODIES[:1], 1))
def test_nearest_in_a_channel_equals_single_queries(views, body):
    assert views.together(body) == views.one_by_one(body)


NEAREST = "(SELECT h.name, distance(h.lat, h.lon, u.lat, u.lon) AS d FROM Homes h ORDER BY d, h.name LIMIT 2)"


#: Joins, and whether the choice is a view between them.
JOINS = [
    (f"LEFT JOIN LATERAL {NEAREST} h ON true", True),
    (f"JOIN LATERAL {NEAREST} h ON true JOIN Shelters k ON k.name = h.name", False),
    (f"LEFT JOIN LATERAL {NEAREST} h ON true JOIN Shelters k ON k.lat = u.lat", True),
    (f"JOIN LATERAL {NEAREST} h ON true LEFT JOIN Shelters k ON k.lat = d", False),
]
CHOICE = "SELECT u.id, h.name, h.d FROM Users u {} WHERE u.id < n"


@pytest.mark.parametrize(("joins", "view"), JOINS)
def test_the_choice_is_a_step_where_no_further_join_needs_it(views, joins, view):
    compiled = views.channel(CHOICE.format(joins))
    text = compiled.render_channel(views.view, "body_subscriptions", now=2.0, previous=1.0)
    assert ("LATERAL VIEW" in text) == view


@pytest.mark.parametrize("choice", few(JOINS, 1))
def test_the_choice_is_a_step_over_the_rows_that_a_condition_keeps(views, choice):
    """As a lateral join Spark would make it for every pair of subscription and row, kept or not."""
    joins, view = choice
    body = CHOICE.format(joins)
    together = views.together(body)
    if view:
        joined = [line for line in views.channel_plan(body).splitlines() if "Join" in line]
        assert joined and not any("list#" in line for line in joined)
    assert together == views.one_by_one(body)
