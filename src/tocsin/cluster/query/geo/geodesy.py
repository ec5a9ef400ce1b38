"""Distances on the earth as Spark SQL: ``distance``, ``within``, and ``within`` as a join on grid cells.

The grid has latitude bands half as high as the radius; each band has as many longitude cells as possible that are at
least as wide as high. One point of a pair is in one cell, the circle around the other touches a few cells: an equality
join finds each pair at most once. Helper columns hold the cells; they are computed in steps that build on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tocsin.cluster.query import spark_dialect as sql
from tocsin.errors import BodyRefused

RADIUS = 6371008.8  # metres, the mean radius
DEGREE = math.pi * RADIUS / 180  # metres
_SMALLEST = 16.0  # metres; the height of the finest cells
_LEVELS = tuple(_SMALLEST * 4**level for level in range(11))  # 16 m … 16 777 km: cell heights for radii not known yet
_SLACK = 1e-6  # degrees; above the rounding errors, far below any cell
_ROUNDING = 1e-13  # of a coordinate on the unit sphere, many times what it can be

#: Helper columns of one step, by the letter their names end with.
Step = dict[str, exp.Expr]
#: The helper column of an earlier step, by its letter.
Own = Callable[[str], exp.Expr]


_PLACE = "abs(a) <= 90 AND abs(b) <= 360"
_DISTANCE = (
    "CASE WHEN abs(a) <= 90 AND abs(c) <= 90 AND abs(b) <= 360 AND abs(d) <= 360 THEN"
    f" 2 * {RADIUS}D * asin(least(1D, sqrt(_HALF_CHORD))) END"
)
# A product, because Spark's pow is many times slower than a second sine.
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


# The square of the straight line through the earth between two unit vectors: no trigonometry for each pair.
_CHORD = "(u - x) * (u - x) + (v - y) * (v - y) + (w - z) * (w - z)"


def chord(vectors: Sequence[exp.Expr]) -> exp.Expr:
    """The square of the straight line between two unit vectors: orders like the distance, except for rounding."""
    return fill(_CHORD, dict(zip("uvwxyz", vectors, strict=True)))


#: The limit of squared chords that, with rounding, may be as short as the squared chord ``c``.
CHORD_SLACK = f"c + {2 * _ROUNDING:e} * (c + 2 * sqrt(c) + {_ROUNDING:e})"


def is_within(term: exp.Expr, vectors: Sequence[exp.Expr], limits: Sequence[exp.Expr]) -> exp.Expr:
    """``within`` of two unit vectors; if rounding could matter, the exact ``term`` decides."""
    given = dict(zip("uvwxyz", vectors, strict=True)) | dict(zip("lh", limits, strict=True))
    return fill(f"{_CHORD} <= l OR ({_CHORD} <= h AND e)", given | {"e": term})


def chord_limits(metres: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Up to the first squared chord two points are certainly within; beyond the second they are certainly not."""
    radius = number(metres)
    if radius is None:
        chord = f"(2 * sin(least(r / {_text(2 * RADIUS)}, {_text(math.pi / 2)})))"
        slack = f"{_text(_ROUNDING)} * ({chord} * {chord} + 2 * {chord} + {_text(_ROUNDING)})"
        texts = [f"CASE WHEN r >= 0 THEN {chord} * {chord} {sign} {slack} ELSE -1e0 END" for sign in "-+"]
        return fill(texts[0], {"r": as_double(metres)}), fill(texts[1], {"r": as_double(metres)})
    if radius < 0:
        return sql.expression("-1e0"), sql.expression("-1e0")
    length = 2 * math.sin(min(radius / (2 * RADIUS), math.pi / 2))
    error = _ROUNDING * (length * length + 2 * length + _ROUNDING)
    return sql.expression(_text(length * length - error)), sql.expression(_text(length * length + error))


def unit_vector(lat: exp.Expr, lon: exp.Expr) -> Step:
    values = {"a": as_double(lat), "b": as_double(lon)}
    texts = {
        "x": "cos(radians(a)) * cos(radians(b))",
        "y": "cos(radians(a)) * sin(radians(b))",
        "z": "sin(radians(a))",
    }
    return {letter: fill(text, values) for letter, text in texts.items()}


def is_place(lat: exp.Expr, lon: exp.Expr) -> exp.Expr:
    return fill(_PLACE, {"a": as_double(lat), "b": as_double(lon)})


def fill(template: str, values: dict[str, exp.Expr]) -> exp.Expr:
    """An expression with its short names replaced."""
    holder = exp.Paren(this=sql.expression(template))
    for node in list(holder.find_all(exp.Column)):
        if node.name in values and not node.table:
            node.replace(values[node.name].copy())
    return exp.Paren(this=holder.this)


def as_double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=exp.Var(this="double"))


def number(value: exp.Expr) -> float | None:
    """The value of a literal; None for any other expression."""
    while isinstance(value, exp.Paren | exp.Cast):
        value = value.this
    if isinstance(value, exp.Neg):
        inner = number(value.this)
        return -inner if inner is not None else None
    if isinstance(value, exp.Literal):
        try:
            found = float(value.this)
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    return None


def _text(value: float) -> str:
    """A double literal: the exponent makes it a double instead of a decimal."""
    return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"


# Cells. ``h`` is the height of a cell in degrees, a name or a number.


@dataclass(frozen=True)
class Grid:
    """Names or numbers: the height of a cell, the radius of a circle (both in degrees), the number of the level."""

    height: str
    radius: str
    level: str

    @classmethod
    def fixed(cls, metres: float, height: float) -> Grid:
        angle = min(max(metres, 0.0), math.pi * RADIUS) / DEGREE + _SLACK
        return cls(_degrees(height), _text(angle), "0L")

    @classmethod
    def levels(cls) -> Grid:
        """The values in the helper columns of ``level_steps``."""
        return cls("h", "r", "l")


# How far east, from 0 at 180° to 1.
_EAST = "pmod(b + 180, 360e0) / 360"


def _band(lat: str, h: str) -> str:
    return f"least(floor(({lat} + 90) / {h}), ceil(180 / {h}) - 1)"


def _per_band(band: str, h: str) -> str:
    """How many cells a band has: as many as fit without being narrower than high, at the side nearer to a pole."""
    edge = f"least(90e0, greatest(abs({band} * {h} - 90), abs(({band} + 1) * {h} - 90)))"
    return f"greatest(1L, floor(360 * cos(radians({edge})) / {h}))"


def _id(level: str, band: str, cell: str) -> str:
    return f"({level}) * 281474976710656L + ({band}) * 16777216L + ({cell})"


def _cell(h: str, level: str) -> str:
    """The one cell of (a, b)."""
    band = _band("a", h)
    many = _per_band(band, h)
    return _id(level, band, f"least(floor({_EAST} * {many}), {many} - 1)")


def _known(value: str) -> str:
    return f"CASE WHEN {_PLACE} THEN {value} END"


def _degrees(height: float) -> str:
    return _text(min(180.0, max(_SMALLEST, height) / DEGREE))


def cell_of(lat: exp.Expr, lon: exp.Expr, height: float) -> exp.Expr:
    """The cell of a point in a grid with cells ``height`` metres high; NULL for an invalid position."""
    return fill(_known(_cell(_degrees(height), "0L")), {"a": as_double(lat), "b": as_double(lon)})


def centre_of(cell: exp.Expr, height: float) -> tuple[exp.Expr, exp.Expr]:
    """Latitude and longitude of the centre of a cell of ``cell_of``."""
    h, band = _degrees(height), "shiftright(i, 24)"
    lat = fill(f"({band} + 0.5D) * {h} - 90", {"i": cell})
    lon = fill(f"((i & 16777215L) + 0.5D) * 360 / {_per_band(band, h)} - 180", {"i": cell})
    return fill("least(90D, x)", {"x": lat}), lon


def point_steps(lat: exp.Expr, lon: exp.Expr, grid: Grid, own: Own, nowhere: bool) -> list[Step]:
    """The cell of a point, as the only column of the last step; ``nowhere``: NULL for an invalid position."""
    band = _band("a", grid.height)
    texts = [
        {"i": _known(band) if nowhere else band},
        {"n": _per_band("i", grid.height)},
        {"": _id(grid.level, "i", f"least(floor({_EAST} * n), n - 1)")},
    ]
    return _filled(texts, lat, lon, own)


def circle_steps(lat: exp.Expr, lon: exp.Expr, grid: Grid, own: Own) -> list[Step]:
    """The same for the cells that the circle around a point touches: two steps multiply the rows."""
    h, r = grid.height, grid.radius
    first, last = _band(f"greatest(-90e0, a - {r})", h), _band(f"least(90e0, a + {r})", h)
    pole = f"abs(a) + {r} >= 90"
    # The latitude at which the circle is widest, also within each band.
    tangent = f"sin(radians(a)) / cos(radians({r}))"
    widest = f"CASE WHEN {pole} THEN a ELSE degrees(asin(least(1e0, greatest(-1e0, {tangent})))) END"
    nearest = f"least(greatest(t, i * {h} - 90), (i + 1) * {h} - 90)"
    high, side = f"sin(radians({r}) / 2)", "sin(radians(p - a) / 2)"
    apart = f"greatest(0e0, {high} * {high} - {side} * {side}) + 1e-15"
    width = (
        f"CASE WHEN {pole} THEN 5e-1 ELSE {_text(1 / math.pi)} * asin(least(1e0, "
        f"sqrt(({apart}) / (cos(radians(a)) * cos(radians(p)))))) + {_text(_SLACK / 360)} END"
    )
    low = "floor((e - w) * n)"
    texts = [
        {"e": _EAST, "t": widest, "i": f"explode(sequence({first}, {last}))"},
        {"n": _per_band("i", h), "p": nearest},
        {"w": width},
        {"j": f"explode(sequence({low}, least(floor((e + w) * n), {low} + n - 1)))"},
        {"": _id(grid.level, "i", "pmod(j, n)")},
    ]
    return _filled(texts, lat, lon, own)


def _filled(texts: list[dict[str, str]], lat: exp.Expr, lon: exp.Expr, own: Own) -> list[Step]:
    names = {"a": as_double(lat), "b": as_double(lon)} | {letter: own(letter) for letter in "ehijlnprtw"}
    steps = [{letter: fill(text, names) for letter, text in step.items()} for step in texts]
    return [unit_vector(lat, lon) | steps[0], *steps[1:]]


def level_of(metres: exp.Expr) -> exp.Expr:
    """The finest level whose cells are not smaller than the radius."""
    steps = " ".join(f"WHEN r <= {height}D THEN {level}" for level, height in enumerate(_LEVELS[:-1]))
    return fill(f"CASE WHEN r IS NULL THEN NULL {steps} ELSE {len(_LEVELS) - 1} END", {"r": as_double(metres)})


def level_steps(level: exp.Expr, metres: exp.Expr | None, own: Own) -> list[Step]:
    """Level, height of a cell and radius in degrees; without a radius, the largest of that level."""
    height = f"least(180e0, {_text(_SMALLEST / DEGREE)} * pow(4e0, l))"
    largest = f"CASE WHEN l = {len(_LEVELS) - 1} THEN 180e0 ELSE {_text(_SMALLEST / DEGREE)} * pow(4e0, l) END"
    radius = largest if metres is None else f"least(greatest(m, 0e0) / {_text(DEGREE)}, 180e0)"
    values = {"l": own("l")} | ({} if metres is None else {"m": as_double(metres)})
    sizes = {"h": fill(height, values), "r": fill(f"{radius} + {_text(_SLACK)}", values)}
    return [{"l": level}, sizes]


def all_levels() -> exp.Expr:
    return sql.expression(f"array({', '.join(str(level) for level in range(len(_LEVELS)))})")


def expand(tree: exp.Query) -> exp.Query:
    """Replace the remaining calls of ``distance`` and ``within`` by builtin functions."""
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
