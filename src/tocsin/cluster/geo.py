"""Distances on the earth as Spark SQL: ``distance``, ``within``, and ``within`` as a join on grid cells.

The grid has latitude bands half as high as the radius, each with as many longitude cells as keep them at least as wide
as high. One point of a pair lies in one cell, the other one's circle touches a few: joined by equality each pair meets
at most once.
"""

from __future__ import annotations

import math

from sqlglot import exp

from tocsin.cluster import sparksql as sql
from tocsin.cluster.sparksql import RESERVED
from tocsin.errors import BodyRefused

RADIUS = 6371008.8  # metres, the mean radius
DEGREE = math.pi * RADIUS / 180  # metres
_SMALLEST = 16.0  # metres; the height of the finest cells
_LEVELS = tuple(_SMALLEST * 4**level for level in range(11))  # 16 m … 16 777 km: cell heights for radii not known yet
_SLACK = 1e-6  # degrees; above the rounding errors, far below any cell


def distance_m(lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None) -> float | None:
    """The reference in Python: haversine, in metres; None for what is no place."""
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    if not (abs(lat1) <= 90 and abs(lat2) <= 90 and abs(lon1) <= 360 and abs(lon2) <= 360):
        return None
    p1, p2 = math.radians(lat1), math.radians(lat2)
    h = math.sin((p2 - p1) / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * RADIUS * math.asin(min(1.0, math.sqrt(h)))


_PLACE = "abs(a) <= 90 AND abs(b) <= 360"
_DISTANCE = (
    "CASE WHEN abs(a) <= 90 AND abs(c) <= 90 AND abs(b) <= 360 AND abs(d) <= 360 THEN"
    f" 2 * {RADIUS}D * asin(least(1D, sqrt(_HALF_CHORD))) END"
)
# A product, as Spark's pow is many times slower than a second sine.
_HALF_CHORD = (
    "sin(radians(c - a) / 2) * sin(radians(c - a) / 2)"
    " + cos(radians(a)) * cos(radians(c)) * sin(radians(d - b) / 2) * sin(radians(d - b) / 2)"
)


def distance(lat1: exp.Expr, lon1: exp.Expr, lat2: exp.Expr, lon2: exp.Expr) -> exp.Expr:
    """``distance(lat1, lon1, lat2, lon2)`` in Spark's builtin functions; NULL if any argument is."""
    given = dict(zip("abcd", (lat1, lon1, lat2, lon2), strict=True))
    return fill(
        _DISTANCE.replace("_HALF_CHORD", _HALF_CHORD), {name: as_double(value) for name, value in given.items()}
    )


def is_within(points: tuple[exp.Expr, exp.Expr, exp.Expr, exp.Expr], metres: float) -> exp.Expr:
    """``within`` of two places for a known radius, cheap tests first; only for points that have a cell."""
    high = f"abs(c - a) <= {min(180.0, metres / DEGREE + _SLACK)!r}D"
    chord = math.sin(min(metres / (2 * RADIUS), math.pi / 2)) ** 2
    values = {name: as_double(value) for name, value in zip("abcd", points, strict=True)}
    return fill(f"{high} AND {_HALF_CHORD} <= {chord!r}D", values)


def fill(template: str, values: dict[str, exp.Expr]) -> exp.Expr:
    """Our own expression with its short names replaced."""
    holder = exp.Paren(this=sql.expression(template))
    for node in list(holder.find_all(exp.Column)):
        if node.name in values and not node.table:
            node.replace(values[node.name].copy())
    return exp.Paren(this=holder.this)


def as_double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.Var(this="double"))


# Cells. ``h`` is the height of a cell in degrees, a name or a number; lambda variables have reserved names,
# because a lambda variable ``b`` would hide a table alias ``b``.

_B, _N, _V, _L = (f"{RESERVED}_v{letter}" for letter in "bnvl")


def _band(lat: str, h: str) -> str:
    return f"CAST(least(floor(({lat} + 90) / {h}), ceil(180 / {h}) - 1) AS BIGINT)"


def _per_band(band: str, h: str) -> str:
    """How many cells a band has: as many as are not narrower than they are high, at the end nearer to a pole."""
    edge = f"least(90D, greatest(abs({band} * {h} - 90), abs(({band} + 1) * {h} - 90)))"
    return f"CAST(greatest(1D, floor(360 * cos(radians({edge})) / {h})) AS BIGINT)"


def _id(level: str, band: str, cell: str) -> str:
    return f"({level}) * 281474976710656L + ({band}) * 16777216L + ({cell})"


def _cell(h: str, level: str) -> str:
    """The one cell of (a, b)."""
    band = _band("a", h)
    many = _per_band(band, h)
    return _id(level, band, f"CAST(least(floor(pmod(b + 180, 360D) / 360 * {many}), {many} - 1) AS BIGINT)")


def _cells(h: str, level: str, radius: str) -> str:
    """All cells that the circle of ``radius`` metres around (a, b) touches, as an array."""
    angle = f"(least(greatest({radius}, 0D), {math.pi * RADIUS}D) / {DEGREE}D + {_SLACK}D)"
    width = (
        f"CASE WHEN abs(a) + {angle} >= 90 THEN 180D"
        f" ELSE degrees(asin(least(1D, sin(radians({angle})) / cos(radians(a))))) + {_SLACK}D END"
    )
    point = f"named_struct('a', a, 'x', pmod(b + 180, 360D), 'r', {angle}, 'w', {width})"
    first = _band(f"greatest(-90D, {_V}.a - {_V}.r)", h)
    last = _band(f"least(90D, {_V}.a + {_V}.r)", h)
    low = f"CAST(floor(({_V}.x - {_V}.w) / 360 * {_N}) AS BIGINT)"
    high = f"CAST(floor(({_V}.x + {_V}.w) / 360 * {_N}) AS BIGINT)"
    around = f"CASE WHEN {high} - {low} + 1 >= {_N} THEN sequence(0L, {_N} - 1) ELSE sequence({low}, {high}) END"
    ids = f"transform({around}, {_V}c -> {_id(level, _B, f'pmod({_V}c, {_N})')})"
    bands = (
        f"transform(sequence({first}, {last}), {_B} -> flatten(transform(array({_per_band(_B, h)}), {_N} -> {ids})))"
    )
    return f"flatten(transform(array({point}), {_V} -> flatten({bands})))"


def _known(value: str) -> str:
    return f"CASE WHEN {_PLACE} THEN {value} END"


def _degrees(height: float) -> str:
    return f"{min(180.0, max(_SMALLEST, height) / DEGREE)!r}D"


def cell_of(lat: exp.Expr, lon: exp.Expr, height: float) -> exp.Expr:
    """The cell, of a grid with cells ``height`` metres high, that a point lies in; NULL for what is no place."""
    return fill(_known(_cell(_degrees(height), "0L")), {"a": as_double(lat), "b": as_double(lon)})


def centre_of(cell: exp.Expr, height: float) -> tuple[exp.Expr, exp.Expr]:
    """Latitude and longitude of the middle of a cell of ``cell_of``."""
    h, band = _degrees(height), "shiftright(i, 24)"
    lat = fill(f"({band} + 0.5D) * {h} - 90", {"i": cell})
    lon = fill(f"((i & 16777215L) + 0.5D) * 360 / {_per_band(band, h)} - 180", {"i": cell})
    return fill("least(90D, x)", {"x": lat}), lon


def cells_around(lat: exp.Expr, lon: exp.Expr, metres: float, height: float) -> exp.Expr:
    """The cells, of a grid with cells ``height`` metres high, that a circle touches."""
    template = _known(_cells(_degrees(height), "0L", f"{float(metres)!r}D"))
    return fill(template, {"a": as_double(lat), "b": as_double(lon)})


def level_of(metres: exp.Expr) -> exp.Expr:
    """The number of the finest level whose cells are not smaller than the radius."""
    steps = " ".join(f"WHEN r <= {height}D THEN {level}" for level, height in enumerate(_LEVELS[:-1]))
    return fill(f"CASE WHEN r IS NULL THEN NULL {steps} ELSE {len(_LEVELS) - 1} END", {"r": as_double(metres)})


def _height_of(level: str) -> str:
    """In degrees, of a level that is known only at run time."""
    return f"least(180D, {_SMALLEST}D * pow(4D, {level}) / {DEGREE}D)"


def cell_at_level(lat: exp.Expr, lon: exp.Expr, level: exp.Expr) -> exp.Expr:
    """The one cell of a point in a level."""
    values = {"a": as_double(lat), "b": as_double(lon), "l": level}
    return fill(_known(_cell(_height_of("l"), "CAST(l AS BIGINT)")), values)


def cells_at_level(lat: exp.Expr, lon: exp.Expr, level: exp.Expr, metres: exp.Expr | None = None) -> exp.Expr:
    """The cells a circle touches in a level; without a radius, the largest circle of that level."""
    largest = f"CASE WHEN l = {len(_LEVELS) - 1} THEN {math.pi * RADIUS}D ELSE {_SMALLEST}D * pow(4D, l) END"
    template = _known(_cells(_height_of("l"), "CAST(l AS BIGINT)", "r"))
    radius = as_double(metres) if metres is not None else fill(largest, {"l": level})
    # A name bound once keeps the expression small: every use of a name copies it.
    return fill(template, {"a": as_double(lat), "b": as_double(lon), "l": level, "r": radius})


def all_levels() -> exp.Expr:
    return sql.expression(f"array({', '.join(str(level) for level in range(len(_LEVELS)))})")


def expand(tree: exp.Query) -> exp.Query:
    """Replaces what is left of ``distance`` and ``within`` by builtin functions."""
    for name, arity in (("within", 5), ("distance", 4)):
        for node in [n for n in tree.find_all(exp.Anonymous) if sql.function_name(n) == name]:
            args = node.expressions
            check_arity(node, name, arity)
            value = distance(*args[:4])
            if name == "within":
                value = exp.Paren(this=exp.LTE(this=value, expression=as_double(args[4])))
            node.replace(value)
    return tree


def check_arity(node: exp.Expr, name: str, arity: int) -> None:
    if len(node.expressions) != arity:
        shape = "lat, lon, lat, lon" + (", metres" if arity == 5 else "")
        raise BodyRefused(f"{name} takes {arity} arguments, {len(node.expressions)} given", hint=f"{name}({shape})")
