"""A condition as a tree: what both notations are read into and written from. Names are those of the attributes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tocsin.content.language.domains import Value

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
#: Of ``3 < severity`` and ``severity > 3``.
MIRRORED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Comparison(Struct, frozen=True):
    attribute: str
    operator: Operator
    value: Value | None


class Membership(Struct, frozen=True):
    """``attribute IN (…)``"""

    attribute: str
    values: tuple[Value | None, ...]


class Between(Struct, frozen=True):
    attribute: str
    low: Value | None
    high: Value | None


class Like(Struct, frozen=True):
    r"""``pattern``: % is any text, _ one character, and ``\`` takes the special meaning from the next one of these."""

    attribute: str
    pattern: str | None


class Present(Struct, frozen=True):
    """``attribute IS NOT NULL``"""

    attribute: str


class Within(Struct, frozen=True):
    """``within(latitude, longitude, lat, lon, metres)``: the place of a publication is near a point."""

    latitude: str
    longitude: str
    lat: float
    lon: float
    metres: float


class Constant(Struct, frozen=True):
    """True, False, or None for a condition that is unknown."""

    value: bool | None


class Not(Struct, frozen=True):
    operand: Expression


class And(Struct, frozen=True):
    operands: tuple[Expression, ...]


class Or(Struct, frozen=True):
    operands: tuple[Expression, ...]


Expression = Comparison | Membership | Between | Like | Present | Within | Constant | Not | And | Or


def conjunction(operands: list[Expression]) -> Expression:
    """Without nested conjunctions."""
    flat = [part for each in operands for part in (each.operands if isinstance(each, And) else (each,))]
    return And(tuple(flat)) if len(flat) > 1 else flat[0] if flat else Constant(True)


def disjunction(operands: list[Expression]) -> Expression:
    flat = [part for each in operands for part in (each.operands if isinstance(each, Or) else (each,))]
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else Constant(False)
