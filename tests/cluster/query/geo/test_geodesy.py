"""Distances and grid cells in Spark SQL agree with the reference in Python."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from query_views import distance_m
from sqlglot import exp

from seeds import few
from tocsin.cluster.query.geo import geodesy
from tocsin.cluster.query.spark_dialect import to_sql
from tocsin.errors import BodyRefused

SEED = 20261116
EDGES = [(90.0, 0.0), (-90.0, 17.0), (89.9999, -180.0), (0.0, 180.0), (0.0, -180.0), (-0.0, 359.9), (51.5, 179.99999)]


def places(count: int, seed: int = SEED) -> list[tuple[float, float]]:
    """Points everywhere, many of them in clumps, at the poles and at the antimeridian."""
    dice = random.Random(seed)
    found = list(EDGES)
    while len(found) < count:
        lat, lon = dice.choice(
            [(90, 0), (-90, 0), (0, 180), (33.7, -117.8), (dice.uniform(-90, 90), dice.uniform(-180, 180))]
        )
        spread = dice.choice([1e-5, 1e-3, 0.1, 5.0])
        lat = max(-90.0, min(90.0, lat + dice.uniform(-spread, spread)))
        found.append((lat, lon + dice.uniform(-spread, spread) if abs(lat) < 80 else dice.uniform(-180, 180)))
    return found


def names(*which: str) -> list[exp.Expr]:
    return [exp.column(name) for name in which]


def cells(spark, steps) -> list[tuple[object, ...]]:
    """(number, cell) of every row of ``geo_points``, after all steps."""
    inner = "geo_points"
    for step in steps:
        inner = (
            f"(SELECT *, {', '.join(f'{to_sql(value)} AS c_{letter}' for letter, value in step.items())} FROM {inner})"
        )
    return [tuple(row) for row in spark.sql(f"SELECT number, c_ FROM {inner}").collect()]


def own(letter: str) -> exp.Expr:
    return exp.column(f"c_{letter}")


def test_distance_in_spark_is_the_distance_in_python(spark):
    pairs = list(zip(places(300), places(300, SEED + 1)[::-1], strict=True))
    columns = [[pair[side][part] for pair in pairs] for side in (0, 1) for part in (0, 1)]
    spark.createDataFrame(pa.table(dict(zip("abcd", columns, strict=True)))).createOrReplaceTempView("geo_pairs")
    text = to_sql(geodesy.distance(*names("a", "b", "c", "d")))
    for a, b, c, d, found in spark.sql(f"SELECT *, {text} FROM geo_pairs").collect():
        assert found == pytest.approx(distance_m(a, b, c, d), rel=1e-9, abs=1e-3)


def test_known_distances_are_correct():
    assert distance_m(48.8566, 2.3522, 52.52, 13.405) == pytest.approx(877_460, rel=1e-3)


NOWHERE = [(None, 0.0), (0.0, None), (91.0, 0.0), (-90.5, 0.0), (float("nan"), 0.0), (0.0, float("inf")), (0.0, 361.0)]


def test_invalid_places_have_no_distance_and_no_cell(spark):
    rows = [(number, *place) for number, place in enumerate(NOWHERE)]
    spark.createDataFrame(rows, "number int, a double, b double").createOrReplaceTempView("geo_points")
    distance = to_sql(geodesy.distance(*names("a", "b", "a", "b")))
    cell = to_sql(geodesy.cell_of(*names("a", "b"), 1000.0))
    valid = to_sql(geodesy.is_place(*names("a", "b")))
    found = spark.sql(f"SELECT {distance}, {cell}, ({valid}) IS TRUE FROM geo_points")
    assert [tuple(row) for row in found.collect()] == [(None, None, False)] * len(NOWHERE)
    grid = geodesy.Grid.fixed(1000.0, 500.0)
    steps = geodesy.point_steps(*names("a", "b"), grid, own, True)
    assert sorted(cells(spark, steps)) == [(number, None) for number in range(len(NOWHERE))]
    assert all(distance_m(*place, 0.0, 0.0) is None for place in NOWHERE)


def hold_every_point(points, one, many, metres):
    around: dict[object, list[object]] = {number: [] for number in range(len(points))}
    for number, cell in many:
        around[number].append(cell)
    for i, found in around.items():
        assert len(set(found)) == len(found)
        for j, cell in one:
            if distance_m(*points[i], *points[j]) <= metres:
                assert cell in found, (points[i], points[j], metres)
    return around


@pytest.mark.parametrize("metres", [0.0, 3.0, 1000.0, 250_000.0, 9_000_000.0, 25_000_000.0])
def test_the_cells_of_a_circle_hold_every_point_of_it_and_none_twice(spark, metres):
    points = places(150)
    table = pa.table({"number": range(len(points)), "a": [p[0] for p in points], "b": [p[1] for p in points]})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    grid = geodesy.Grid.fixed(metres, metres / 2)
    one = cells(spark, geodesy.point_steps(*names("a", "b"), grid, own, True))
    many = cells(spark, geodesy.circle_steps(*names("a", "b"), grid, own))
    around = hold_every_point(points, one, many, metres)
    assert max(map(len, around.values())) <= 256


@pytest.mark.parametrize("largest", [False, True])
def test_levels_hold_every_point_of_a_circle_of_any_radius(spark, largest):
    points, radii = places(80, SEED + 2), [0.0, 16.0, 5000.0, 16_000_000.0, 30_000_000.0]
    rows = [(metres, *place) for metres in radii for place in points]
    columns = dict(zip(("metres", "a", "b"), map(list, zip(*rows, strict=True)), strict=True))
    table = pa.table({"number": range(len(rows)), **columns})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    radius = exp.column("metres")
    grid, level = geodesy.Grid.levels(), geodesy.level_of(radius)
    levels = geodesy.level_steps(level, None if largest else radius, own)
    one = cells(spark, levels + geodesy.point_steps(*names("a", "b"), grid, own, True))
    many = cells(spark, levels + geodesy.circle_steps(*names("a", "b"), grid, own))
    for place, metres in enumerate(radii):
        mine = range(place * len(points), (place + 1) * len(points))
        its = [[(number - mine.start, cell) for number, cell in found if number in mine] for found in (one, many)]
        hold_every_point(points, *its, metres)


CHORDS = [0.0, 5.0, 20_015_114.0, 1e-6, 900.0, 30_000.0, 1_000_000.0, 12_000_000.0, 3e7]


def decides_as_the_distance_does(spark, radii: list[float], radius: exp.Expr) -> None:
    """Also for points on the edge: the second of each pair lies within some ulps of the radius."""
    dice = random.Random(SEED)
    pairs = [(*a, *b, metres) for metres in radii for a, b in zip(places(400), places(400, SEED + 1), strict=True)]
    for metres in radii:
        pairs += [(*a, *near_the_edge(dice, *a, metres), metres) for a in places(400, SEED + 3)]
    columns = dict(zip("abcdm", map(list, zip(*pairs, strict=True)), strict=True))
    spark.createDataFrame(pa.table(columns)).createOrReplaceTempView("geo_pairs")
    sides = [geodesy.unit_vector(*names("a", "b")), geodesy.unit_vector(*names("c", "d"))]
    vectors = [side[letter] for side in sides for letter in "xyz"]
    exact = f"{to_sql(geodesy.distance(*names('a', 'b', 'c', 'd')))} <= m"
    quick = geodesy.is_within(exp.column("nothing"), vectors, geodesy.chord_limits(radius))
    rows = spark.sql(f"SELECT {exact}, {to_sql(quick).replace('nothing', exact)} FROM geo_pairs").collect()
    assert [row[0] for row in rows] == [row[1] for row in rows]


@pytest.mark.parametrize("metres", few(CHORDS, 3))
def test_the_chord_decides_as_the_distance_does(spark, metres):
    decides_as_the_distance_does(spark, [metres], exp.Literal.number(metres))


def test_the_chord_decides_as_the_distance_does_for_radii_of_a_column(spark):
    decides_as_the_distance_does(spark, CHORDS, exp.column("m"))


def near_the_edge(dice: random.Random, lat: float, lon: float, metres: float) -> tuple[float, float]:
    """A place about ``metres`` away, in any direction."""
    angle, turn, phi = metres / geodesy.RADIUS, dice.uniform(0, 2 * math.pi), math.radians(lat)
    up = math.sin(phi) * math.cos(angle) + math.cos(phi) * math.sin(angle) * math.cos(turn)
    there = math.asin(max(-1.0, min(1.0, up)))
    east = math.atan2(math.sin(turn) * math.sin(angle) * math.cos(phi), math.cos(angle) - math.sin(phi) * up)
    return math.degrees(there), (lon + math.degrees(east) + 540) % 360 - 180


def test_the_centre_of_a_cell_lies_in_it(spark):
    points = places(100)
    table = pa.table({"a": [p[0] for p in points], "b": [p[1] for p in points]})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    cell = to_sql(geodesy.cell_of(*names("a", "b"), 1000.0))
    lat, lon = (to_sql(part) for part in geodesy.centre_of(exp.column("cell"), 1000.0))
    again = to_sql(geodesy.cell_of(*names("x", "y"), 1000.0))
    inner = f"SELECT cell, {lat} AS x, {lon} AS y FROM (SELECT {cell} AS cell FROM geo_points)"
    assert spark.sql(f"SELECT * FROM ({inner}) WHERE NOT (cell <=> {again})").collect() == []


@pytest.mark.parametrize("call", ["distance(1, 2, 3)", "within(1, 2, 3, 4)", "within(1, 2, 3, 4, 5, 6)"])
def test_a_wrong_number_of_arguments_is_refused(call):
    from tocsin.cluster.query.spark_dialect import parse

    with pytest.raises(BodyRefused, match="arguments"):
        geodesy.expand(parse(f"SELECT {call}"))
