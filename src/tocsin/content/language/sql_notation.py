"""Conditions as SQL: ``kind = 'fire' AND severity >= 3 AND place LIKE 'har%'``, read by sqlglot as Spark reads it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from tocsin.content.language import patterns
from tocsin.content.language.attributes import Attribute, Attributes
from tocsin.content.language.domains import Value, number, written_number
from tocsin.content.language.expressions import (
    MIRRORED,
    And,
    Between,
    Comparison,
    Constant,
    Expression,
    Like,
    Membership,
    Not,
    Operator,
    Or,
    Present,
    Within,
    conjunction,
    disjunction,
)
from tocsin.content.language.reader import Reader
from tocsin.sql import scalars
from tocsin.sql.dialect import TocsinSpark
from tocsin.sql.scalars import InvalidValue
from tocsin.sql.tree import read_tree

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_INTEGERS = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
_TIMES = {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ"}
_ALLOWED = "a condition compares attributes with constants: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL, within"
_WITHIN = "within(latitude, longitude, 33.68, -117.82, 500) takes two attributes, a point and metres"


def read(text: str, attributes: Attributes) -> Expression:
    """Raises ParseError, TypeMismatch or LimitExceeded, each with line and column."""
    reader = _SqlReader(text, attributes)
    if not text.strip():
        raise reader.error(0, "the condition is empty", _ALLOWED)
    try:
        return reader.expression(read_tree(reader.script, 0, text, "the condition", exp.Condition))
    except RecursionError:
        raise reader.error(0, "the condition is nested too deeply", "use IN (…)") from None


class _SqlReader(Reader):
    def expression(self, node: exp.Expr) -> Expression:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.And | exp.Or):
            parts = [self.expression(part) for part in _operands(node)]
            return conjunction(parts) if isinstance(node, exp.And) else disjunction(parts)
        if isinstance(node, exp.Not):
            inner = self.expression(node.this)
            # IS NOT NULL is NOT and IS NULL for sqlglot.
            return inner.operand if isinstance(node.this, exp.Is) and isinstance(inner, Not) else Not(inner)
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        self.count(self._place(node))
        return self._predicate(node)

    def _predicate(self, node: exp.Expr) -> Expression:
        operator = _OPERATORS.get(type(node))
        if operator is not None:
            return self._comparison(node, operator)
        if isinstance(node, exp.Column):
            attribute = self._column(node)
            if attribute.domain.family != "boolean":
                hint = f"compare it: {node.name} = …"
                raise self.type_error(self._place(node), f"{attribute.name} is of type {attribute.domain.type}", hint)
            return Comparison(attribute.name, "=", True)
        if isinstance(node, exp.In):
            return self._membership(node)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            attribute = self._column(node.this)
            self.count(self._place(node))
            low, high = (self._value(attribute, node.args[side]) for side in ("low", "high"))
            return Between(attribute.name, low, high)
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Not(Present(self._column(node.this).name))
        if isinstance(node, exp.Anonymous) and str(node.name).lower() == "within":
            return self._within(node)
        raise self.error(self._place(node), f"{self._shown(node)} cannot be part of a condition", _ALLOWED)

    def _comparison(self, node: exp.Expr, operator: Operator) -> Comparison:
        left, right = _bare(node.this), _bare(node.expression)
        if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
            left, right, operator = right, left, MIRRORED[operator]
        attribute = self._column(left)
        if isinstance(right, exp.Column):
            hint = "a condition compares attributes with constants; quote texts: '…'"
            raise self.error(self._place(right), f"{self._shown(right)} is not a constant", hint)
        return Comparison(attribute.name, operator, self._value(attribute, right))

    def _membership(self, node: exp.In) -> Membership:
        attribute = self._column(node.this)
        if not node.expressions:
            raise self.error(self._place(node), "IN takes a list of constants", f"{attribute.name} IN (1, 2)")
        for item in node.expressions[1:]:
            self.count(self._place(item))
        return Membership(attribute.name, tuple(self._value(attribute, item) for item in node.expressions))

    def _like(self, node: exp.Like | exp.Escape) -> Expression:
        escape = "\\"
        like = node
        if isinstance(node, exp.Escape):
            escape, like = str(node.expression.name), node.this
            if len(escape) != 1:
                raise self.error(self._place(node.expression), "ESCAPE takes one character")
        attribute = self._column(like.this)
        place = self._place(like.expression)
        if attribute.domain.family != "text":
            raise self.type_error(place, f"{attribute.name} is of type {attribute.domain.type}, and LIKE is for texts")
        pattern = self._value(attribute, like.expression)
        try:
            text = None if pattern is None else patterns.normal(str(pattern), escape)
        except InvalidValue as invalid:
            raise self.error(place, str(invalid), f"write {escape}{escape} for the character {escape}") from None
        found = Like(attribute.name, text)
        return Not(found) if like.args.get("negate") else found

    def _within(self, node: exp.Anonymous) -> Within:
        place = self._place(node)
        if len(node.expressions) != 5:
            raise self.error(place, f"within takes 5 arguments, {len(node.expressions)} given", _WITHIN)
        first, second = node.expressions[:2], node.expressions[2:4]
        if all(isinstance(_bare(item), exp.Column) for item in second):
            first, second = second, first
        names = []
        for item in first:
            attribute = self._column(_bare(item))
            if attribute.domain.family != "number":
                raise self.type_error(
                    self._place(item), f"{attribute.name} is of type {attribute.domain.type}", _WITHIN
                )
            names.append(attribute.name)
        numbers = []
        for item in (*second, node.expressions[4]):
            found = self._literal(_bare(item))
            if isinstance(found, bool) or not isinstance(found, int | float | Decimal):
                raise self.type_error(self._place(item), "a number expected", _WITHIN)
            try:
                numbers.append(scalars.double(found))
            except InvalidValue as invalid:
                raise self.type_error(self._place(item), str(invalid), _WITHIN) from None
        return Within(names[0], names[1], *numbers)

    def _column(self, node: exp.Expr) -> Attribute:
        node = _bare(node)
        if not isinstance(node, exp.Column):
            raise self.error(
                self._place(node), f"the name of an attribute expected, found {self._shown(node)}", _ALLOWED
            )
        if node.table:
            raise self.error(
                self._place(node), "an attribute has one name", f"quote a name with a point: `{node.sql()}`"
            )
        return self.attribute(str(node.name), self._place(node))

    def _value(self, attribute: Attribute, node: exp.Expr) -> Value | None:
        literal = self._literal(_bare(node))
        return None if literal is None else self.value(attribute, literal, self._place(node))

    def _literal(self, node: exp.Expr) -> Value | None:
        """The Python value of a constant; types of Spark's literals are kept: 3 is exact, 3e0 is a double."""
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg):
            inner = self._literal(_bare(node.this))
            if isinstance(inner, int | float | Decimal) and not isinstance(inner, bool):
                return -inner
        if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
            return str(node.name)
        try:
            if isinstance(node, exp.Literal):
                return number(str(node.name))
            if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
                return self._typed(node)
        except (ValueError, InvalidOperation):
            pass
        raise self.error(self._place(node), f"{self._shown(node)} is not a constant", _ALLOWED)

    def _typed(self, node: exp.Cast) -> Value:
        """DATE '…', TIMESTAMP '…', 3L, 3D and 3BD; other casts raise ValueError."""
        name, text = str(node.to.this.name), str(node.this.name)
        if name in _TIMES:
            return text
        if isinstance(node, exp.TryCast) and name in _INTEGERS:
            return int(text)
        if isinstance(node, exp.TryCast) and name == "DOUBLE":
            return float(text)
        if isinstance(node, exp.TryCast) and name == "DECIMAL":
            return Decimal(text)
        raise ValueError(name)

    def _place(self, node: exp.Expr) -> int:
        """The first character of a node that sqlglot knows the place of."""
        starts = [int(item.meta["start"]) for item in node.walk() if "start" in item.meta]
        if starts:
            return min(starts)
        return self._place(node.parent) if node.parent is not None else 0

    def _shown(self, node: exp.Expr) -> str:
        text = node.sql(dialect=TocsinSpark)
        return text if len(text) <= 40 else text[:39] + "…"


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Of a chain of one connective, which sqlglot nests to the left; in a loop, because chains are long."""
    kind, found = type(node), []
    while isinstance(node, kind):
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


def write(expression: Expression) -> str:
    """The condition as Spark SQL; reading it gives the same tree."""
    return _write(expression, 0)


def _write(item: Expression, binding: int) -> str:
    """``binding``: how strongly the context binds: 1 AND, 2 NOT."""
    if isinstance(item, And | Or):
        strength, word = (1, " AND ") if isinstance(item, And) else (0, " OR ")
        text = word.join(_write(part, strength + 1) for part in item.operands)
        return f"({text})" if binding > strength else text
    if isinstance(item, Not):
        inner = item.operand
        if isinstance(inner, Present):
            return f"{_name(inner.attribute)} IS NULL"
        if isinstance(inner, Membership | Between | Like):
            return _leaf(inner, "NOT ")
        return f"NOT ({_write(inner, 0)})"
    return _leaf(item)


def _leaf(item: Expression, negation: str = "") -> str:
    if isinstance(item, Comparison):
        return f"{_name(item.attribute)} {item.operator} {_constant(item.value)}"
    if isinstance(item, Membership):
        return f"{_name(item.attribute)} {negation}IN ({', '.join(map(_constant, item.values))})"
    if isinstance(item, Between):
        return f"{_name(item.attribute)} {negation}BETWEEN {_constant(item.low)} AND {_constant(item.high)}"
    if isinstance(item, Like):
        return f"{_name(item.attribute)} {negation}LIKE {_constant(item.pattern)}"
    if isinstance(item, Present):
        return f"{_name(item.attribute)} IS NOT NULL"
    if isinstance(item, Within):
        point = ", ".join(map(_constant, (item.lat, item.lon, item.metres)))
        return f"within({_name(item.latitude)}, {_name(item.longitude)}, {point})"
    assert isinstance(item, Constant)
    return _constant(item.value)


def _name(name: str) -> str:
    if name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


_KEYWORDS = frozenset(TocsinSpark.Tokenizer.KEYWORDS) | {"NULL", "TRUE", "FALSE", "NOT", "ESCAPE"}


def _constant(value: Value | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return str(exp.Literal.string(value).sql(dialect=TocsinSpark))
    if isinstance(value, dt.datetime):
        return f"{'TIMESTAMP' if value.tzinfo else 'TIMESTAMP_NTZ'} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    return written_number(value)
