"""Distances and grid cells in Spark SQL agree with the reference in Python."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from sqlglot import exp

from tocsin.cluster import geo
from tocsin.cluster.sparksql import to_sql
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


def test_distance_in_spark_is_the_distance_in_python(spark):
    pairs = list(zip(places(300), places(300, SEED + 1)[::-1], strict=True))
    columns = [[pair[side][part] for pair in pairs] for side in (0, 1) for part in (0, 1)]
    spark.createDataFrame(pa.table(dict(zip("abcd", columns, strict=True)))).createOrReplaceTempView("geo_pairs")
    text = to_sql(geo.distance(*names("a", "b", "c", "d")))
    for a, b, c, d, found in spark.sql(f"SELECT *, {text} FROM geo_pairs").collect():
        assert found == pytest.approx(geo.distance_m(a, b, c, d), rel=1e-9, abs=1e-3)


def test_a_known_distance_is_right():
    assert geo.distance_m(48.8566, 2.3522, 52.52, 13.405) == pytest.approx(877_460, rel=1e-3)


@pytest.mark.parametrize(
    "place",
    [(None, 0.0), (0.0, None), (91.0, 0.0), (-90.5, 0.0), (float("nan"), 0.0), (0.0, float("inf")), (0.0, 361.0)],
)
def test_what_is_no_place_has_no_distance_and_no_cell(spark, place):
    schema = "a double, b double"
    spark.createDataFrame([place], schema).createOrReplaceTempView("geo_nowhere")
    distance = to_sql(geo.distance(*names("a", "b", "a", "b")))
    cell = to_sql(geo.cell_of(*names("a", "b"), 1000.0))
    cells = to_sql(geo.cells_around(*names("a", "b"), 1000.0, 500.0))
    assert tuple(spark.sql(f"SELECT {distance}, {cell}, {cells} FROM geo_nowhere").collect()[0]) == (None, None, None)
    assert geo.distance_m(*place, 0.0, 0.0) is None


@pytest.mark.parametrize("metres", [0.0, 3.0, 1000.0, 250_000.0, 9_000_000.0, 25_000_000.0])
def test_the_cells_of_a_circle_hold_every_point_of_it_and_none_twice(spark, metres):
    points = places(120)
    table = pa.table({"i": range(len(points)), "a": [p[0] for p in points], "b": [p[1] for p in points]})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    one = to_sql(geo.cell_of(*names("a", "b"), metres / 2))
    many = to_sql(geo.cells_around(*names("a", "b"), metres, metres / 2))
    rows = spark.sql(f"SELECT i, {one}, {many} FROM geo_points").collect()
    for i, _, around in rows:
        assert len(set(around)) == len(around) <= 256
        for j, cell, _ in rows:
            if geo.distance_m(*points[i], *points[j]) <= metres:
                assert cell in around, (points[i], points[j], metres)


@pytest.mark.parametrize("metres", [0.0, 16.0, 5000.0, 16_000_000.0, 30_000_000.0])
def test_levels_hold_every_point_of_a_circle_of_any_radius(spark, metres):
    points = places(80, SEED + 2)
    table = pa.table({"i": range(len(points)), "a": [p[0] for p in points], "b": [p[1] for p in points]})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    radius = exp.Literal.number(metres)
    level = geo.level_of(radius)
    one = to_sql(geo.cell_at_level(*names("a", "b"), level))
    own = to_sql(geo.cells_at_level(*names("a", "b"), level, radius))
    largest = to_sql(geo.cells_at_level(*names("a", "b"), level))
    rows = spark.sql(f"SELECT i, {one}, {own}, {largest} FROM geo_points").collect()
    for i, _, small, big in rows:
        assert len(set(small)) == len(small) and len(set(big)) == len(big)
        for j, cell, _, _ in rows:
            if geo.distance_m(*points[i], *points[j]) <= metres:
                assert cell in small and cell in big, (points[i], points[j], metres)


def test_the_centre_of_a_cell_lies_in_it(spark):
    points = places(100)
    table = pa.table({"a": [p[0] for p in points], "b": [p[1] for p in points]})
    spark.createDataFrame(table).createOrReplaceTempView("geo_points")
    cell = to_sql(geo.cell_of(*names("a", "b"), 1000.0))
    lat, lon = (to_sql(part) for part in geo.centre_of(exp.column("cell"), 1000.0))
    again = to_sql(geo.cell_of(*names("x", "y"), 1000.0))
    inner = f"SELECT cell, {lat} AS x, {lon} AS y FROM (SELECT {cell} AS cell FROM geo_points)"
    assert spark.sql(f"SELECT * FROM ({inner}) WHERE NOT (cell <=> {again})").collect() == []


@pytest.mark.parametrize("call", ["distance(1, 2, 3)", "within(1, 2, 3, 4)", "within(1, 2, 3, 4, 5, 6)"])
def test_a_wrong_number_of_arguments_is_refused(call):
    from tocsin.cluster.sparksql import parse

    with pytest.raises(BodyRefused, match="arguments"):
        geo.expand(parse(f"SELECT {call}"))
