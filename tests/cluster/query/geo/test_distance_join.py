"""``within`` as a join: the pairs of brute force, without a nested loop."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from query_views import TABLES, QueryViews, distance_m
from test_geodesy import places

from seeds import few, spread
from tocsin.cluster.query.compiler import compile_query

RADII = [0.0, 5.0, 900.0, 30_000.0, 1_000_000.0, 12_000_000.0]


@pytest.fixture(scope="module")
def points():
    dice = random.Random(7)
    left = [(i, *p, dice.choice(RADII)) for i, p in enumerate(places(90, 1))] + [
        (998, None, 1.0, 5.0),
        (999, 1.0, 2.0, None),
    ]
    right = [(i, *p) for i, p in enumerate(places(110, 2))] + [(999, None, None)]
    return left, right


@pytest.fixture(scope="module")
def views(spark, points):
    left, right = points
    tables = dict(TABLES)
    tables["Circles"] = pa.table(
        dict(zip(("id", "lat", "lon", "metres"), map(list, zip(*left, strict=True)), strict=True))
    )
    tables["Points"] = pa.table(dict(zip(("pid", "lat", "lon"), map(list, zip(*right, strict=True)), strict=True)))
    return QueryViews(spark, tables)


def brute(points, radius):
    left, right = points
    found = set()
    for i, lat, lon, own in left:
        for j, lat2, lon2 in right:
            distance = distance_m(lat, lon, lat2, lon2)
            metres = own if radius is None else radius
            if distance is not None and metres is not None and distance <= metres:
                found.add((i, j))
    return found


def pairs(views, query):
    text = compile_query(query, views, channel=True).render(views.view)
    rows = views.rows(text)
    assert "NestedLoop" not in views.plan(text) and "Cartesian" not in views.plan(text)
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize("radius", few([0.0, 900.0, 12_000_000.0, 5.0, 30_000.0, 1_000_000.0], 2))
def test_a_fixed_radius_finds_the_pairs_of_brute_force(views, points, radius):
    query = f"SELECT c.id, p.pid FROM Circles c JOIN Points p ON within(c.lat, c.lon, p.lat, p.lon, {radius})"
    assert pairs(views, query) == brute(points, radius)


@pytest.mark.parametrize(
    "condition",
    ["within(c.lat, c.lon, p.lat, p.lon, c.metres)", "within(p.lat, p.lon, c.lat, c.lon, metres)"],
)
def test_a_radius_that_differs_by_row_finds_the_pairs_of_brute_force(views, points, condition):
    query = f"SELECT c.id, p.pid FROM Circles c, Points p WHERE {condition}"
    assert pairs(views, query) == brute(points, None)


def test_the_side_with_new_rows_is_exploded(views, points):
    query = "SELECT c.id, p.pid FROM Points p, Circles c WHERE is_new(c) AND within(p.lat, p.lon, c.lat, c.lon, 30000)"
    text = compile_query(query, views, channel=True).render(views.view)
    exploded = text[text.index("explode(") : text.index("explode(") + 400]
    assert "c.lat" in exploded and "p.lat" not in exploded
    assert pairs(views, query) == {pair for pair in brute(points, 30_000.0) if pair[0] >= 3}


BODIES = [
    "SELECT r.id, h.name FROM Reports r JOIN Shelters h ON within(r.lat, r.lon, h.lat, h.lon, 1000) WHERE r.etype = t",
    "SELECT * EXCEPT (h.lat, h.lon) FROM Reports r, Shelters h WHERE within(r.lat, r.lon, h.lat, h.lon, 1000)"
    " AND is_new(r) AND r.etype = t",
    "SELECT r.id FROM Reports r WHERE within(r.lat, r.lon, plat, plon, 200000)",
    "SELECT r.* FROM Reports r WHERE is_new(r) AND within(r.lat, r.lon, plat, plon, n * 100000)",
    "SELECT r.id FROM Reports r WHERE within(plat, plon, lat, lon, n * 100000)",
    "SELECT count(*) c FROM Reports r WHERE within(r.lat, r.lon, plat, plon, 200000)",
    "SELECT r.id FROM Reports r WHERE EXISTS (SELECT 1 FROM Shelters h WHERE within(h.lat, h.lon, r.lat, r.lon, 1000))"
    " AND r.etype = t",
    "SELECT r.id, h.name FROM Reports r LEFT JOIN Shelters h ON within(h.lat, h.lon, r.lat, r.lon, 1000) WHERE"
    " r.etype = t",
    "SELECT r.id, h.name FROM Reports r, LATERAL (SELECT name FROM Shelters h WHERE within(h.lat, h.lon, r.lat,"
    " r.lon, 1000))"
    " h WHERE r.etype = t",
    "SELECT r.id, h.name, k.name AS other FROM Reports r JOIN Shelters h ON within(h.lat, h.lon, r.lat, r.lon, 200000)"
    " JOIN Shelters k ON within(k.lat, k.lon, h.lat, h.lon, 200000) WHERE r.etype = t",
]


@pytest.mark.parametrize("body", spread(BODIES, 4))
def test_within_in_a_channel_equals_single_queries_without_a_nested_loop(views, body):
    together = views.together(body)
    assert "NestedLoop" not in views.channel_plan(body)
    assert together == views.one_by_one(body)


def test_within_outside_of_where_is_an_ordinary_expression(views):
    body = "SELECT r.id, within(r.lat, r.lon, plat, plon, 5) AS near FROM Reports r WHERE r.etype = t OR r.sev = n"
    assert views.together(body) == views.one_by_one(body)


def test_the_side_with_fewer_rows_after_the_expansion_to_cells_is_hashed(views):
    query = "SELECT c.id FROM Circles c, Points p WHERE is_new(c) AND within(c.lat, c.lon, p.lat, p.lon, 30000)"
    compiled = compile_query(query, views, channel=True)
    for new, hint in ((10, "BROADCAST(_tocsin_build)"), (10_000, "BROADCAST(`p`)")):
        counts = {"Circles": new, "Points": 100_000}
        text = compiled.render(views.view, rows=lambda use, known=counts: known[use.relation.name])
        assert hint in text
        assert set(views.rows(text)) == set(views.rows(compiled.render(views.view)))


def test_subscriptions_with_a_place_are_counted(views):
    compiled = views.channel("SELECT r.id FROM Reports r WHERE is_new(r) AND within(r.lat, r.lon, plat, plon, 1000)")
    text = compiled.render_channel(
        views.view, "body_subscriptions", rows=lambda use: 1000 if use is None else 100, now=2.0, previous=1.0
    )
    assert "BROADCAST(`_tocsin_s`)" in text
