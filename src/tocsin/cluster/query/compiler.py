"""Compiles the body of a channel, function, procedure or query into SQL for Spark."""

from __future__ import annotations

import datetime
import decimal
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlglot import exp

from tocsin.cluster.model import Parameter
from tocsin.cluster.query import join_order, safety, set_rewrite
from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.geo import distance_join, geodesy, nearest
from tocsin.cluster.query.incrementality import needs_new
from tocsin.cluster.query.relations import Build, Names, Relation, Use, uses_of
from tocsin.cluster.query.resolver import Resolver, cast_to, parameter_map
from tocsin.errors import BodyRefused, TypeMismatch

__all__ = ["CompiledQuery", "Names", "Relation", "Use", "compile_query", "literal"]

Rows = Callable[[Use | None], int | None] | None


@dataclass(frozen=True)
class _Template:
    """A text with holes; ``holes[i]`` is between ``texts[i]`` and ``texts[i + 1]``."""

    texts: tuple[str, ...]
    holes: tuple[Use | Build | str, ...]

    def fill(self, view: Callable[[Use], str], rows: Rows, subscriptions: str, now: float, previous: float) -> str:
        words = {"subscriptions": subscriptions, "now": str(_micros(now)), "previous": str(_micros(previous))}
        out = [self.texts[0]]
        for hole, text in zip(self.holes, self.texts[1:], strict=True):
            if isinstance(hole, Build):
                # Spark ignores a hint without a table.
                out.append(hole.table if rows is not None and hole.wanted(rows) else distance_join.BUILD)
            else:
                out.append(words[hole] if isinstance(hole, str) else view(hole))
            out.append(text)
        return "".join(out)


@dataclass(frozen=True)
class CompiledQuery:
    """``functions`` are the inlined ones, as ``name@arity``; ``ordered``: the query ends in ORDER BY.

    ``needs_new``: it has no results if no rows are new.
    """

    uses: frozenset[Use]
    functions: frozenset[str]
    parameters: tuple[Parameter, ...]
    ordered: bool
    needs_new: bool
    _plain: _Template
    _channel: _Template | None

    def render(self, view: Callable[[Use], str], *, rows: Rows = None, now: float = 0.0, previous: float = 0.0) -> str:
        """A single query. Parameters without a value are typed NULLs, which is enough to check the query."""
        return self._plain.fill(view, rows, "", now, previous)

    def words(self, *, channel: bool = False) -> bytes:
        """The cache key of a query: its text and the columns of its relations."""
        template = self._channel if channel and self._channel is not None else self._plain
        holes = [(type(hole).__name__, hole) for hole in template.holes]
        return msgspec.json.encode([channel, template.texts, holes, self.parameters])

    @property
    def timed(self) -> bool:
        """Whether a channel's query uses the time of its execution or of the one before."""
        return self._channel is not None and not {"now", "previous"}.isdisjoint(map(str, self._channel.holes))

    def render_channel(
        self, view: Callable[[Use], str], subscriptions: str, *, rows: Rows = None, now: float, previous: float
    ) -> str:
        """``SELECT subscription_id, payload [, rank]`` for the view of subscriptions (subscription_id, p_0, p_1, …).

        ``rows`` estimates the rows of a use (None: of the subscriptions), for the choice of a plan.
        """
        if self._channel is None:
            raise BodyRefused("this query was not compiled for a channel")
        return self._channel.fill(view, rows, subscriptions, now, previous)


def compile_query(
    text: str,
    names: Names,
    parameters: Sequence[Parameter] = (),
    *,
    values: Sequence[Any] | None = None,
    channel: bool = False,
) -> CompiledQuery:
    """Check and resolve one query. ``values`` binds the parameters; ``channel`` allows is_new and channel times."""
    try:
        return _compile(text, names, tuple(parameters), values, channel)
    except RecursionError as error:
        raise BodyRefused("the query is nested too deeply", hint="split it with WITH, or use IN (…)") from error


def _compile(
    text: str, names: Names, parameters: tuple[Parameter, ...], values: Sequence[Any] | None, channel: bool
) -> CompiledQuery:
    _check_parameters(parameters, values)
    root = sql.parse(text)
    safety.check_tree(root)
    _name_outputs(root)
    if values is None:
        make: Callable[[int], exp.Expr] = set_rewrite.parameter_column
    else:
        literals = [literal(value, item.type) for value, item in zip(values, parameters, strict=True)]
        make = lambda index: literals[index].copy()  # noqa: E731
    resolver = Resolver(names, parameter_map(parameters, make), channel=channel)
    tree = resolver.resolve(root)
    _check_outputs(tree)
    ordered = tree.args.get("order") is not None
    plain = _template(_finish(_with_nulls(tree.copy(), parameters)))
    template = None
    if channel:
        statement = set_rewrite.channel_statement(tree, len(parameters), _SUBSCRIPTIONS, ordered=ordered)
        template = _template(_finish(statement))
    uses = frozenset(uses_of(tree))
    return CompiledQuery(uses, frozenset(resolver.functions), parameters, ordered, needs_new(tree), plain, template)


def literal(value: Any, type_: str) -> exp.Expr:
    """A typed literal, built as a tree, so that the text of a value is never parsed as SQL."""
    if value is None:
        return cast_to(exp.null(), type_)
    if isinstance(value, bool):
        return cast_to(exp.Boolean(this=value), type_)
    if isinstance(value, bytes):
        return cast_to(sql.call("unhex", exp.Literal.string(value.hex())), type_)
    if isinstance(value, datetime.datetime | datetime.date):
        return cast_to(exp.Literal.string(value.isoformat()), type_)
    if isinstance(value, int | float | decimal.Decimal | str):
        return cast_to(exp.Literal.string(str(value)), type_)
    if isinstance(value, list | tuple | dict):
        # from_json needs an object, so the value is its only field.
        encoded = msgspec.json.encode({"v": value}).decode()
        parsed = sql.call("from_json", exp.Literal.string(encoded), exp.Literal.string(f"struct<v:{type_}>"))
        return exp.Dot(this=parsed, expression=exp.to_identifier("v"))
    raise TypeMismatch(f"a {type(value).__name__} cannot be a value of type {type_}")


_SUBSCRIPTIONS = f"{sql.RESERVED}_subscriptions"


def _check_parameters(parameters: tuple[Parameter, ...], values: Sequence[Any] | None) -> None:
    seen: set[str] = set()
    for item in parameters:
        if item.name.lower() in seen:
            raise BodyRefused(f"two parameters have the name {item.name!r}", name=item.name)
        seen.add(item.name.lower())
    if values is not None and len(values) != len(parameters):
        raise TypeMismatch(f"{len(parameters)} arguments are expected, {len(values)} given")


def _first_select(node: exp.Expr) -> exp.Select | None:
    while isinstance(node, exp.Subquery | exp.SetOperation):
        node = node.this
    return node if isinstance(node, exp.Select) else None


def _name_outputs(root: exp.Query) -> None:
    """Name unnamed columns by their text, so that rewriting them does not change the results."""
    select = _first_select(root)
    for item in list(select.expressions) if select is not None else []:
        if (
            isinstance(item, exp.Alias | exp.Aliases | exp.Column | exp.Star)
            or sql.function_name(item) in sql.GENERATORS
        ):
            continue
        name = str(item.expression.name) if isinstance(item, exp.Dot) else sql.to_sql(item)
        if name:
            item.replace(exp.alias_(item.copy(), exp.to_identifier(name, quoted=True)))


def _check_outputs(tree: exp.Query) -> None:
    select = _first_select(tree)
    seen: set[str] = set()
    for item in select.expressions if select is not None else []:
        names = [str(item.alias_or_name)]
        if item.is_star:
            names = _star_columns(item, select) if select is not None else []
        for name in names:
            if name and name.lower() in seen:
                raise safety.duplicate_column(name)
            seen.add(name.lower())


def _star_columns(item: exp.Expr, select: exp.Select) -> list[str]:
    """The columns of a star if they are known; not for a subquery or a join that merges columns."""
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star) or star.args.get("replace") or star.args.get("rename"):
        return []
    for join in select.args.get("joins") or []:
        merges = join.args.get("using") or join.args.get("method")
        if merges or str(join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
            return []
    hidden = {str(node.name).lower() for node in star.args.get("except_") or []}
    found = []
    for source in sql.sources(select):
        if isinstance(item, exp.Column) and str(item.table).lower() != sql.source_name(source):
            continue
        if "relation" in source.meta and not source.args["alias"].args.get("columns") and not source.args.get("pivots"):
            found += [c.name for c in source.meta["relation"].columns if c.name.lower() not in hidden]
    return found


def _with_nulls(tree: exp.Query, parameters: tuple[Parameter, ...]) -> exp.Query:
    for node in list(tree.find_all(exp.Column)):
        if "parameter" in node.meta:
            node.replace(cast_to(exp.null(), parameters[node.meta["parameter"]].type))
    return tree


def _finish(tree: exp.Query) -> exp.Query:
    tree = nearest.rewrite(tree)
    tree = distance_join.rewrite(tree)
    return geodesy.expand(join_order.rewrite(tree))


def _template(tree: exp.Query) -> _Template:
    nonce = secrets.token_hex(8)
    holes: list[Use | Build | str] = []

    def token(hole: Use | Build | str) -> str:
        holes.append(hole)
        return f"tocsin_{nonce}_{len(holes) - 1}_"

    for use, tables in uses_of(tree).items():
        for table in tables:
            table.set("this", exp.to_identifier(token(use)))
            table.set("db", None)
    for table in tree.find_all(exp.Table):
        if table.name == _SUBSCRIPTIONS:
            table.set("this", exp.to_identifier(token("subscriptions")))
    for name_of in [node for node in tree.find_all(exp.Identifier) if "build" in node.meta]:
        name_of.set("this", token(name_of.meta["build"]))
    for node in list(tree.find_all(exp.Anonymous)):
        name = sql.function_name(node)
        if name in ("current_channel_time", "previous_channel_time"):
            micros = exp.Var(this=token("now" if name == "current_channel_time" else "previous"))
            node.replace(sql.call("timestamp_micros", micros))
    # Texts and the numbers of the holes between them.
    parts = re.split(f"tocsin_{nonce}_([0-9]+)_", sql.to_sql(tree))
    return _Template(tuple(parts[::2]), tuple(holes[int(number)] for number in parts[1::2]))


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
