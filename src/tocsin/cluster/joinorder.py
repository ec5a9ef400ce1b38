"""Lists the tables of a FROM so that each one is joined to the earlier ones by an equality, where there is one.

Spark keeps the written order and takes any common condition for a join: ``FROM s, r, u WHERE (s.k = 'any' OR s.k = r.k)
AND u.id = s.id AND …`` becomes a nested loop of s and r, although u links them by hashes.
"""

from __future__ import annotations

from itertools import takewhile

from sqlglot import exp

from tocsin.cluster import sparksql as sql
from tocsin.cluster import within


def rewrite(tree: exp.Query) -> exp.Query:
    for select in list(tree.find_all(exp.Select)):
        _reorder(select)
    return tree


def _reorder(select: exp.Select) -> None:
    written = list(select.args.get("joins") or [])
    # What an outer join adds comes after the tables before it, in whichever order those are.
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
        chosen = next((item for item in free if _linked(item, placed, links)), waiting[0])
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
    """The order of its columns is the order of the tables."""
    stars = [node for node in sql.own_nodes(item) if isinstance(node, exp.Star)]
    return any(not isinstance(s.parent, exp.Column) and sql.function_name(s.parent or s) != "count" for s in stars)


def _link(term: exp.Expr, select: exp.Select) -> tuple[list[exp.Expr], list[exp.Expr]] | None:
    if not isinstance(term, exp.EQ | exp.NullSafeEQ):
        return None
    sides = []
    for value in (term.this, term.expression):
        found = within.owners(value, select)
        if not found or any(owner is not select for _, owner in found):
            return None
        sides.append([source for source, _ in found])
    return sides[0], sides[1]


def _linked(item: exp.Expr, placed: list[exp.Expr], links: list[tuple[list[exp.Expr], list[exp.Expr]]]) -> bool:
    def known(side: list[exp.Expr]) -> bool:
        return all(any(source is each for each in placed) for source in side)

    def alone(side: list[exp.Expr]) -> bool:
        return len(side) == 1 and side[0] is item

    return any((known(a) and alone(b)) or (known(b) and alone(a)) for a, b in links)
