"""Orders the tables of a FROM so that each one is joined to the earlier ones by an equality, if there is one.

Spark keeps the written order and accepts any condition for a join: ``FROM s, r, u WHERE (s.k = 'any' OR s.k = r.k) AND
u.id = s.id AND …`` becomes a nested loop of s and r, although u connects them by equalities. Of several possible next
tables, one whose whole key is known goes first: it adds no rows, and its columns help to join further tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from sqlglot import exp

from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.geo import distance_join


@dataclass
class _JoinSide:
    """One side of an equality, and the sources whose columns it uses."""

    value: exp.Expr
    sources: list[exp.Expr]


_Link = tuple[_JoinSide, _JoinSide]


def rewrite(tree: exp.Query) -> exp.Query:
    for select in list(tree.find_all(exp.Select)):
        _reorder(select)
    return tree


def _reorder(select: exp.Select) -> None:
    written = list(select.args.get("joins") or [])
    # An outer join stays after all tables before it, whatever their order.
    joins = list(takewhile(_inner, written))
    if len(joins) < 2 or select.args["from_"].this.args.get("joins"):
        return
    if any(_bare_star(item) for item in select.expressions):
        return
    where = select.args.get("where")
    terms = sql.conjuncts(where.this if where is not None else None)
    for join in joins:
        terms += sql.conjuncts(join.args.get("on"))
    if any(term.find(exp.Query) for term in terms):
        return
    links = [pair for pair in (_link(term, select) for term in terms) if pair is not None]
    placed = [select.args["from_"].this]
    waiting = [join.this for join in joins]
    order: list[exp.Expr] = []
    while waiting:
        free = [item for item in waiting if not isinstance(item, exp.Lateral) or item is waiting[0]]
        linked = [item for item in free if _given(item, placed, links)]
        keyed = [item for item in linked if _key(item) <= _columns(_given(item, placed, links)) and _key(item)]
        chosen = [*keyed, *linked, *waiting][0]
        waiting = [item for item in waiting if item is not chosen]
        placed.append(chosen)
        order.append(chosen)
    if all(item is join.this for item, join in zip(order, joins, strict=True)):
        return
    select.set("joins", [exp.Join(this=item, kind="CROSS") for item in order] + written[len(joins) :])
    condition = sql.conjunction(terms)
    select.set("where", exp.Where(this=condition) if condition is not None else None)


def _inner(join: exp.Join) -> bool:
    kind = str(join.args.get("kind") or "").upper()
    plain = not join.args.get("using") and not join.args.get("method") and not str(join.args.get("side") or "")
    return plain and kind in ("", "INNER", "CROSS") and not join.this.args.get("joins")


def _bare_star(item: exp.Expr) -> bool:
    """Whether the order of the columns depends on the order of the tables."""
    stars = [node for node in sql.own_nodes(item) if isinstance(node, exp.Star)]
    return any(not isinstance(s.parent, exp.Column) and sql.function_name(s.parent or s) != "count" for s in stars)


def _link(term: exp.Expr, select: exp.Select) -> _Link | None:
    if not isinstance(term, exp.EQ | exp.NullSafeEQ):
        return None
    sides = []
    for value in (term.this, term.expression):
        found = distance_join.owners(value, select)
        if not found or any(owner is not select for _, owner in found):
            return None
        sides.append(_JoinSide(value, [source for source, _ in found]))
    return sides[0], sides[1]


def _given(item: exp.Expr, placed: list[exp.Expr], links: list[_Link]) -> list[exp.Expr]:
    """The columns of a source that are equal to an expression over the placed sources."""

    def known(side: _JoinSide) -> bool:
        return all(any(source is each for each in placed) for source in side.sources)

    def alone(side: _JoinSide) -> bool:
        return len(side.sources) == 1 and side.sources[0] is item

    return [mine.value for a, b in links for mine, other in ((a, b), (b, a)) if alone(mine) and known(other)]


def _columns(values: list[exp.Expr]) -> frozenset[str]:
    return frozenset(str(value.name).lower() for value in values if isinstance(value, exp.Column))


def _key(source: exp.Expr) -> frozenset[str]:
    """The primary key of the relation of a source; empty if it has none."""
    tables = list(source.find_all(exp.Table))
    relation = tables[0].meta.get("relation") if len(tables) == 1 and not source.find(exp.Join) else None
    return frozenset(name.lower() for name in relation.key) if relation is not None else frozenset()
