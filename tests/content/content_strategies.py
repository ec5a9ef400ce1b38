"""Hypothesis strategies for conditions and publications over one set of attributes, with values that often meet."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

from tocsin.cluster.model import Column
from tocsin.content import Attributes, Condition
from tocsin.content.language import expressions as ex
from tocsin.content.language import patterns

COLUMNS = (
    Column("kind", "string"),
    Column("severity", "int"),
    Column("level", "tinyint", nullable=False),
    Column("big", "bigint"),
    Column("price", "double"),
    Column("ratio", "float"),
    Column("amount", "decimal(10,2)"),
    Column("at", "timestamp"),
    Column("noted", "timestamp_ntz"),
    Column("day", "date"),
    Column("ok", "boolean"),
    Column("place name", "string"),
    Column("lat", "double"),
    Column("lon", "double"),
)
ATTRIBUTES = Attributes.of_columns(COLUMNS)
POINT = (33.68, -117.82)

_TIMES = [dt.datetime(2026, 11, 16, 0, 2, 54, 123456), dt.datetime(2026, 11, 16), dt.datetime(1969, 12, 31, 23)]
_NUMBERS = [0, 1, 2, 3, 4, -1, Decimal("2.5"), Decimal("3.0"), Decimal("0.1"), 2.0, 2.5e0, 1e-3, 300, -129]
#: Literals by column: few, so that comparisons hit.
LITERALS = {
    "kind": ["fire", "flood", "", "it's", "50%", "a_b", "a\\b", "fi\nre", "\0", "日本", "\U0001f525"],
    "severity": [*_NUMBERS, 1 << 40],
    "level": _NUMBERS,
    "big": [*_NUMBERS, (1 << 53) + 1, 9.007199254740993e15, (1 << 63) - 1, Decimal("9007199254740993.5"), 1e19],
    "price": [*_NUMBERS, 1e300, -0.0, Decimal("0.30000000000000004")],
    "ratio": [2, Decimal("2.5"), Decimal("0.1"), 2.5e0],
    "amount": [*_NUMBERS, Decimal("2.50"), Decimal("2.505"), Decimal("99999999.99"), 1e9],
    "at": [time.replace(tzinfo=dt.UTC) for time in _TIMES],
    "noted": _TIMES,
    "day": [dt.date(2026, 11, 16), dt.date(1969, 12, 31), dt.date(2028, 2, 29)],
    "ok": [True, False],
    "place name": ["harbour", "har", "hat", "Hafen", "arb"],
    "lat": [Decimal("33.68"), 90, 33.6801e0, Decimal("-33.5")],
    "lon": [Decimal("-117.82"), Decimal("242.18"), 0],
}
#: JSON values by column.
DATA = {
    **{name: [value for value in LITERALS[name] if isinstance(value, int)] for name in ("severity", "level", "big")},
    "kind": [*LITERALS["kind"], "fi", "xfire", "firex", "a%b"],
    "price": [0.1, 0.30000000000000004, 2.5, 2, 1e300, -0.0, 3.0],
    "ratio": [0.1, 2.5, 2.0, 16777216.0],
    "amount": [0, 2.5, "2.51", 3, "99999999.99", "-1.00"],
    "at": [*(f"{time.isoformat()}Z" for time in _TIMES), "2026-11-16T01:02:54.123456+01:00"],
    "noted": [time.isoformat() for time in _TIMES],
    "day": [day.isoformat() for day in LITERALS["day"]] + ["2026-11-17"],
    "ok": [True, False],
    "place name": LITERALS["place name"],
    "lat": [33.68, 33.6801, 33.69, 90.0, -90.0, 91.0, -33.68],
    "lon": [-117.82, 242.18, -117.8201, 0.0, 360.0, 400.0],
}
DATA["severity"].remove(1 << 40)
DATA["level"] = [value for value in DATA["level"] if -128 <= value < 128]
_TEXTS = ("kind", "place name")
_PATTERNS = ["fire", "fi%", "%re", "%ir%", "%", "f_re", "_%_", "%i%e%", r"50\%", r"a\_b", "har%", "%arb%", "h_r%", ""]


def publications() -> st.SearchStrategy[dict[str, object]]:
    optional = {name: st.sampled_from([None, *DATA[name]]) for name in DATA if name != "level"}
    return st.fixed_dictionaries({"level": st.sampled_from(DATA["level"])}, optional=optional)


@st.composite
def _comparison(draw: st.DrawFn, nulls: bool = True) -> ex.Expression:
    name = draw(st.sampled_from(list(LITERALS)))
    value = draw(st.sampled_from([*LITERALS[name], *([None] if nulls else [])]))
    return ex.Comparison(name, draw(st.sampled_from(list(ex.MIRRORED))), value)


@st.composite
def _listed(draw: st.DrawFn) -> ex.Expression:
    name = draw(st.sampled_from(list(LITERALS)))
    value = st.sampled_from([*LITERALS[name], None])
    if draw(st.booleans()):
        return ex.Membership(name, tuple(draw(st.lists(value, min_size=1, max_size=4))))
    return ex.Between(name, draw(value), draw(value))


def _like() -> st.SearchStrategy[ex.Expression]:
    return st.builds(ex.Like, st.sampled_from(_TEXTS), st.sampled_from(_PATTERNS).map(patterns.normal))


def _within() -> st.SearchStrategy[ex.Expression]:
    lat, lon = st.sampled_from([POINT[0], 33.6801, 90.0, 91.0]), st.sampled_from([POINT[1], 242.18, 0.0])
    return st.builds(
        ex.Within, st.just("lat"), st.just("lon"), lat, lon, st.sampled_from([0.0, 20.0, 2e4, 2.1e7, -1.0])
    )


def _present() -> st.SearchStrategy[ex.Expression]:
    return st.builds(ex.Present, st.sampled_from(list(LITERALS)))


def _joined(inner: st.SearchStrategy[ex.Expression]) -> st.SearchStrategy[ex.Expression]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(several.map(ex.conjunction), several.map(ex.disjunction), inner.map(ex.Not))


def expressions(leaves: int = 6) -> st.SearchStrategy[ex.Expression]:
    constant = st.sampled_from([ex.Constant(True), ex.Constant(False), ex.Constant(None)])
    leaf = st.one_of(_comparison(), _comparison(), _comparison(), _listed(), _like(), _within(), _present(), constant)
    return st.recursive(leaf, _joined, max_leaves=leaves)


def conditions(leaves: int = 6) -> st.SearchStrategy[Condition]:
    return expressions(leaves).map(lambda tree: Condition(tree, ATTRIBUTES))


def padres_expressions() -> st.SearchStrategy[ex.Expression]:
    """Those that PADRES has a notation for."""
    plain = ["fi%", "%re", "%ir%", "%", r"50\%%"]
    like = st.builds(ex.Like, st.sampled_from(_TEXTS), st.sampled_from(plain))
    leaf = st.one_of(_comparison(nulls=False), like, _present())
    return st.lists(leaf, min_size=1, max_size=4).map(ex.conjunction)
