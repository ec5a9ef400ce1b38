"""Rewrites a body with parameters into one query for all subscriptions.

Spark's ``FROM s, LATERAL (body)`` refuses many bodies (a parameter two subqueries deep, in an aggregate, in GROUP BY)
and makes a nested loop of others (a parameter in the select list). So this module joins the subscriptions into the
body: every SELECT gets the id of the subscription as an additional column, grouping key and window partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sqlglot import exp

from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.allow_list import AGGREGATES, GENERATORS
from tocsin.cluster.query.geo import nearest
from tocsin.errors import BodyRefused
from tocsin.sql.dialect import TocsinSpark

S = f"{sql.RESERVED}_s"
ID = f"{sql.RESERVED}_id"
RANK = f"{sql.RESERVED}_rank"
_MARK = f"{sql.RESERVED}_m"


def parameter_name(index: int) -> str:
    return f"{sql.RESERVED}_p{index}"


def parameter_column(index: int) -> exp.Column:
    node = sql.column(parameter_name(index), S)
    node.meta["parameter"] = index
    return node


def channel_statement(body: exp.Query, count: int, subscriptions: str, *, ordered: bool) -> exp.Select:
    """``SELECT subscription_id, payload [, rank]`` for all rows of the view ``subscriptions``."""
    keyer = _Keyer(count, subscriptions)
    options = "map('ignoreNullFields', 'false')"
    if not keyer.depends(body) and not ordered:
        # All subscriptions have the same rows: encode them once.
        once = sql.expression(f"SELECT to_json(struct(q.*), {options}) AS payload FROM x AS q")
        cast(exp.Table, once.find(exp.Table)).replace(sql.derived(body.copy(), "q"))
        outer = sql.expression(f"SELECT {S}.{ID} AS subscription_id, r.payload FROM x CROSS JOIN y")
        tables = {str(table.name): table for table in outer.find_all(exp.Table)}
        tables["x"].replace(keyer.subscriptions())
        tables["y"].replace(sql.derived(once, "r"))
        return cast(exp.Select, outer)
    query = keyer.query(body.copy(), rank=ordered)
    rank = f", CAST(q.{RANK} AS INT) AS rank" if ordered else ""
    hidden = f"{ID}, {RANK}" if ordered else ID
    outer = sql.expression(
        f"SELECT q.{ID} AS subscription_id, to_json(struct(q.* EXCEPT ({hidden})), {options}) AS payload{rank}"
        " FROM x AS q"
    )
    cast(exp.Table, outer.find(exp.Table)).replace(sql.derived(query, "q"))
    return cast(exp.Select, outer)


class _Keyer:
    def __init__(self, count: int, subscriptions: str) -> None:
        self.count = count
        self.view = subscriptions
        self.ctes: set[str] = set()
        self.unnamed = 0

    def subscriptions(self) -> exp.Subquery:
        """The view, with column names that a body cannot use."""
        select = exp.select(exp.alias_(sql.column("subscription_id"), ID, quoted=True))
        for index in range(self.count):
            select = select.select(exp.alias_(sql.column(f"p_{index}"), parameter_name(index), quoted=True), copy=False)
        return sql.derived(select.from_(exp.Table(this=exp.to_identifier(self.view))), S)

    def depends(self, node: exp.Expr) -> bool:
        """Whether it uses a parameter, directly or through a CTE."""
        for item in node.walk():
            if isinstance(item, exp.Column) and "parameter" in item.meta:
                return True
            if isinstance(item, exp.Table) and item.meta.get("cte") in self.ctes:
                return True
        return False

    def query(self, node: exp.Expr, *, rank: bool) -> exp.Query:
        """The columns: the id, those of the body, and optionally the rank."""
        with_ = self._with(node)
        if isinstance(node, exp.Subquery):
            if any(node.args.get(key) for key in ("order", "limit", "offset")):
                result = self._ordered_set(self.query(node.this, rank=False), node, rank)
            else:
                result = self.query(node.this, rank=rank)
        elif isinstance(node, exp.SetOperation):
            keyed = node.copy()
            for key in ("order", "limit", "offset", "with_", "sort"):
                keyed.set(key, None)
            keyed.set("this", self._side(node.left))
            keyed.set("expression", self._side(node.right))
            result = self._ordered_set(cast(exp.Query, keyed), node, rank)
        elif isinstance(node, exp.Select):
            result = self._select(node, rank)
        else:
            raise BodyRefused(f"a {type(node).__name__.upper()} cannot use parameters")
        if with_ is not None:
            own = result.args.get("with_")
            if own is not None:
                with_.set("expressions", [*with_.expressions, *own.expressions])
            result.set("with_", with_)
        return result

    def _side(self, node: exp.Expr) -> exp.Expr:
        keyed = self.query(node.copy(), rank=False)
        return exp.Subquery(this=keyed) if keyed.args.get("with_") or isinstance(keyed, exp.SetOperation) else keyed

    def _with(self, node: exp.Expr) -> exp.With | None:
        with_ = node.args.get("with_")
        if with_ is None:
            return None
        node.set("with_", None)
        for cte in with_.expressions:
            if not self.depends(cte.this):
                continue
            name = str(cte.alias).lower()
            if with_.args.get("recursive") and any(t.meta.get("cte") == name for t in cte.this.find_all(exp.Table)):
                raise BodyRefused("a recursive query cannot use parameters", hint="filter its result instead")
            self._key_query(cte)
            self.ctes.add(name)
        return cast(exp.With, with_)

    # one SELECT

    def _select(self, select: exp.Select, rank: bool) -> exp.Query:
        for key in ("sort", "cluster", "distribute"):
            select.set(key, None)
        if nearest.is_nearest(select) and not select.args.get("joins"):
            return self._lateral(select, rank)
        if not select.args.get("group") and _aggregates(select):
            return self._total(select, rank)
        outer_joins = [j for j in select.args.get("joins") or [] if str(j.side).upper() in ("RIGHT", "FULL")]
        pivoted = any(
            isinstance(s, exp.Subquery) and s.args.get("pivots") and self.depends(s) for s in sql.sources(select)
        )
        if pivoted:
            return self._lateral(select, rank)
        if outer_joins and (select.args.get("laterals") or self._from_depends(select)):
            # Spark rewrites these incorrectly, with any join order.
            raise BodyRefused(
                "a parameter cannot be used in a RIGHT or FULL JOIN", hint="use LEFT JOIN, or filter in WHERE"
            )
        self._subqueries(select)
        used = self._used(select)
        self._from(select, together=bool(outer_joins))
        for window in _windows(select):
            if not (window.this is None or isinstance(window.parent, exp.Window)):
                window.set("partition_by", [sql.column(ID, S), *(window.args.get("partition_by") or [])])
        group = select.args.get("group")
        if group is not None and not group.args.get("all"):
            if any(
                not item.expressions for item in [*(group.args.get("rollup") or []), *(group.args.get("cube") or [])]
            ):
                raise BodyRefused(
                    "GROUP BY … WITH ROLLUP/CUBE cannot use parameters", hint="write ROLLUP(…) or CUBE(…)"
                )
            grouped = [_by_number(item, select.expressions) for item in group.expressions]
            group.set("expressions", [sql.column(ID, S), *used, *grouped])
        select.set("expressions", [exp.alias_(sql.column(ID, S), ID, quoted=True), *select.expressions])
        return self._ordered(select, rank)

    def _used(self, select: exp.Select) -> list[exp.Column]:
        found = {n.meta["parameter"] for n in select.find_all(exp.Column) if "parameter" in n.meta}
        return [parameter_column(index) for index in sorted(found)]

    def _from_depends(self, select: exp.Select) -> bool:
        parts = [select.args.get("from_"), *(select.args.get("joins") or [])]
        return any(self.depends(part) for part in parts if part is not None)

    def _from(self, select: exp.Select, *, together: bool) -> None:
        """Put the subscriptions first, so that every ON can use the parameters."""
        from_ = select.args.get("from_")
        joins = list(select.args.get("joins") or [])
        first = from_.this if from_ is not None else None
        select.set("from_", exp.From(this=self.subscriptions()))
        if together and first is not None:
            first.set("joins", [*(first.args.get("joins") or []), *joins])
            joins = [exp.Join(this=exp.Subquery(this=first), kind="CROSS")]
        elif first is not None:
            joins.insert(0, exp.Join(this=first, kind="CROSS"))
        select.set("joins", joins)
        for join in joins:
            table = join.this
            if isinstance(table, exp.Table) and isinstance(table.this, exp.Func) and self.depends(table.this):
                alias = table.args.get("alias")
                table.replace(exp.Lateral(this=table.this.copy(), view=False, outer=False, alias=alias))
            if self._key_source(join.this):
                name = str(join.this.alias_or_name)
                same = exp.EQ(this=sql.column(ID, name), expression=sql.column(ID, S))
                if join.args.get("using") or join.args.get("method"):
                    raise BodyRefused("a subquery with parameters cannot be joined by USING", hint="write JOIN … ON")
                if str(join.args.get("kind") or "").upper() == "CROSS":
                    join.set("kind", None)
                join.set("on", exp.and_(same, join.args.get("on")))
                sql.hide(select, name, ID)
        for node in select.args["expressions"]:
            for star in [n for n in sql.own_nodes(node) if isinstance(n, exp.Star)]:
                if not isinstance(star.parent, exp.Column) and sql.function_name(star.parent or star) != "count":
                    names = [ID, *(parameter_name(index) for index in range(self.count))]
                    hidden = [sql.column(name, S) for name in names]
                    star.set("except_", [*(star.args.get("except_") or []), *hidden])

    def _key_source(self, source: exp.Expr) -> bool:
        """Add the id to a derived table; a CTE has it already."""
        if isinstance(source, exp.Table):
            return source.meta.get("cte") in self.ctes
        if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Query) and self.depends(source.this):
            if not source.alias:
                self.unnamed += 1
                source.set("alias", sql.table_alias(f"{sql.RESERVED}_d{self.unnamed}"))
            if source.args.get("pivots"):
                raise BodyRefused(
                    "PIVOT of a subquery with parameters is not possible", hint="use max(…) FILTER (WHERE …)"
                )
            self._key_query(source)
            return True
        return False

    def _key_query(self, holder: exp.Expr) -> None:
        """Add the id to the query of a CTE or a derived table, and to the names of its columns."""
        holder.set("this", self.query(holder.this, rank=False))
        columns = holder.args["alias"].args.get("columns")
        if columns:
            holder.args["alias"].set("columns", [exp.to_identifier(ID, quoted=True), *columns])

    def _subqueries(self, select: exp.Select) -> None:
        """Subqueries in expressions and laterals see the subscription; only CTEs with an id need the condition."""
        for inner in list(select.find_all(exp.Select)):
            if inner is select or self._in_derived(inner, select):
                continue
            for source in sql.sources(inner):
                if isinstance(source, exp.Table) and source.meta.get("cte") in self.ctes:
                    name = str(source.alias_or_name)
                    same = exp.EQ(this=sql.column(ID, name), expression=sql.column(ID, S))
                    inner.where(same, copy=False)
                    sql.hide(inner, name, ID)

    def _in_derived(self, inner: exp.Select, select: exp.Select) -> bool:
        node: exp.Expr | None = inner
        while node is not None and node is not select:
            parent = node.parent
            if isinstance(parent, exp.From | exp.Join) and isinstance(node, exp.Subquery) and parent.parent is select:
                return True
            node = parent
        return False

    # aggregates without GROUP BY: one row for each subscription, even if no row matches

    def _total(self, select: exp.Select, rank: bool) -> exp.Query:
        """Group the matched rows and one unmarked row for each subscription; aggregates use only marked rows."""
        inner = select.copy()
        for key in ("having", "order", "limit", "offset", "distinct", "windows", "qualify"):
            inner.set(key, None)
        projected: list[exp.Expr] = []
        for node in _aggregate_calls(select):
            _project_arguments(node, projected)
        names = [f"{sql.RESERVED}_a{index}" for index in range(len(projected))]
        items = [exp.alias_(value, name, quoted=True) for value, name in zip(projected, names, strict=True)]
        parameters = [parameter_column(index) for index in range(self.count)]
        head = [exp.alias_(item, parameter_name(index), quoted=True) for index, item in enumerate(parameters)]
        inner.set("expressions", [*head, exp.alias_(exp.true(), _MARK, quoted=True), *items])
        keyed = self._select(inner, False)
        empty = exp.select(sql.column(ID), *[sql.column(parameter_name(index)) for index in range(self.count)])
        empty = empty.select(exp.false(), *[exp.null() for _ in names], copy=False).from_(self.subscriptions())
        both = exp.union(keyed, empty, distinct=False, dialect=TocsinSpark)
        used = self._used(select)
        result = select
        for key in ("from_", "joins", "laterals", "where"):
            result.set(key, None)
        result.set("from_", exp.From(this=sql.derived(both, S)))
        for window in _windows(result):
            window.set("partition_by", [sql.column(ID, S), *(window.args.get("partition_by") or [])])
        result.set("group", exp.Group(expressions=[sql.column(ID, S), *used]))
        result.set("expressions", [exp.alias_(sql.column(ID, S), ID, quoted=True), *result.expressions])
        return self._ordered(result, rank)

    def _lateral(self, select: exp.Select, rank: bool) -> exp.Query:
        order = select.args.get("order")
        if rank and nearest.is_nearest(select):
            position = exp.alias_(sql.call(nearest.POSITION), RANK, quoted=True)
            select.set("expressions", [*select.expressions, position])
        elif rank:
            terms = [item.copy() for item in order.expressions] if order is not None else []
            select.set("expressions", [*select.expressions, _row_number(None, terms)])
        name = f"{sql.RESERVED}_q"
        outer = (
            exp.select(exp.alias_(sql.column(ID, S), ID, quoted=True)).select(f"{name}.*").from_(self.subscriptions())
        )
        lateral = exp.Lateral(this=exp.Subquery(this=select), view=False, outer=False, alias=sql.table_alias(name))
        outer.set("joins", [exp.Join(this=lateral, kind="CROSS")])
        return outer

    # order and limit, per subscription

    def _ordered(self, select: exp.Select, rank: bool) -> exp.Query:
        limits = _limits(select)
        order = select.args.get("order")
        select.set("order", None)
        if not rank and limits is None:
            return select
        terms = list(order.expressions) if order is not None else []
        outside = bool(select.args.get("distinct")) or any(
            isinstance(n, exp.Window) or sql.function_name(n) in GENERATORS
            for item in select.expressions
            for n in sql.own_nodes(item)
        )
        if outside:
            for term in terms:
                for item in list(term.find_all(exp.Column)):
                    item.replace(sql.column(str(item.name)))
            return _cut(_ranked(sql.derived(select, f"{sql.RESERVED}_w"), terms), limits, rank)
        terms = [_inlined(term, select.expressions[1:]) for term in terms]
        select.set("expressions", [*select.expressions, _row_number(sql.column(ID, S), terms)])
        return _cut(select, limits, rank)

    def _ordered_set(self, keyed: exp.Query, node: exp.Expr, rank: bool) -> exp.Query:
        limits = _limits(node)
        if not rank and limits is None:
            return keyed
        order = node.args.get("order")
        terms = list(order.expressions) if order is not None else []
        return _cut(_ranked(sql.derived(keyed, f"{sql.RESERVED}_w"), terms), limits, rank)


def _limits(node: exp.Expr) -> tuple[exp.Expr | None, exp.Expr | None] | None:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    node.set("limit", None)
    node.set("offset", None)
    if isinstance(limit, exp.Limit) and str(limit.expression.name).upper() == "ALL":
        limit = None
    if limit is None and offset is None:
        return None
    return (limit.expression if limit is not None else None, offset.expression if offset is not None else None)


def _row_number(partition: exp.Expr | None, terms: list[exp.Expr]) -> exp.Expr:
    order = exp.Order(expressions=terms or [exp.Ordered(this=exp.null())])
    window = exp.Window(
        this=sql.call("row_number"), partition_by=[partition] if partition else None, order=order, over="OVER"
    )
    return exp.alias_(window, RANK, quoted=True)


def _ranked(source: exp.Subquery, terms: list[exp.Expr]) -> exp.Select:
    terms = [_by_position(term, source) for term in terms]
    select = exp.select("*").from_(source)
    return select.select(_row_number(sql.column(ID), terms), copy=False)


def _by_position(term: exp.Expr, source: exp.Subquery) -> exp.Expr:
    if isinstance(term.this, exp.Literal) and not term.this.is_string:
        names = cast(exp.Query, source.this).named_selects
        index = int(term.this.name)
        if not 0 < index < len(names) or "*" in names:
            raise BodyRefused(f"ORDER BY {index} is not a column", hint="order by a name")
        term.set("this", sql.column(names[index]))
    return term


def _cut(query: exp.Query, limits: tuple[exp.Expr | None, exp.Expr | None] | None, rank: bool) -> exp.Query:
    if limits is None:
        return query
    limit, offset = limits
    outer = exp.select("*").from_(sql.derived(query, f"{sql.RESERVED}_l"))
    if not rank or offset is not None:
        sql.hide(outer, f"{sql.RESERVED}_l", RANK)
    number = sql.column(RANK, f"{sql.RESERVED}_l")
    if rank and offset is not None:
        shifted = exp.Sub(this=number.copy(), expression=exp.Paren(this=offset.copy()))
        outer.select(exp.alias_(shifted, RANK, quoted=True), copy=False)
    end: exp.Expr | None = exp.Paren(this=limit.copy()) if limit is not None else None
    if offset is not None:
        start = exp.Paren(this=offset.copy())
        outer.where(exp.GT(this=number.copy(), expression=start), copy=False)
        end = exp.Add(this=end, expression=start.copy()) if end is not None else None
    if end is not None:
        outer.where(exp.LTE(this=number.copy(), expression=end), copy=False)
    return outer


def _inlined(term: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """ORDER BY sees the aliases and positions of the select list; a window in that list does not."""
    if isinstance(term.this, exp.Literal) and not term.this.is_string:
        index = int(term.this.name)
        if not 0 < index <= len(items) or any(item.is_star for item in items[:index]):
            raise BodyRefused(f"ORDER BY {index} is not a column", hint="order by a name")
        term.set("this", items[index - 1].unalias().copy())
        return term
    aliases = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
    holder = exp.Paren(this=term)
    for node in list(holder.find_all(exp.Column)):
        if len(node.parts) == 1 and node.name.lower() in aliases and "parameter" not in node.meta:
            node.replace(exp.Paren(this=aliases[node.name.lower()].copy()))
    return cast(exp.Expr, holder.this)


def _by_number(item: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """GROUP BY 1 means the first column of the body, which is no longer the first column."""
    if not isinstance(item, exp.Literal) or item.is_string:
        return item
    index = int(item.name)
    if not 0 < index <= len(items) or any(each.is_star for each in items[:index]):
        raise BodyRefused(f"GROUP BY {index} is not a column", hint="group by a name")
    return items[index - 1].unalias().copy()


def _nodes(select: exp.Select, *keys: str) -> Iterator[exp.Expr]:
    """All nodes of these clauses, but not those inside a nested query."""
    for key in keys:
        value = select.args.get(key)
        for item in value if isinstance(value, list) else [value]:
            yield from sql.own_nodes(item) if item is not None else ()


def _windows(select: exp.Select) -> list[exp.Window]:
    nodes = _nodes(select, "expressions", "having", "qualify", "order")
    inline = [node for node in nodes if isinstance(node, exp.Window) and not node.args.get("alias")]
    return [*(select.args.get("windows") or []), *inline]


def _aggregate_calls(select: exp.Select) -> list[exp.Expr]:
    nodes = _nodes(select, "expressions", "having", "order")
    return [node for node in nodes if sql.function_name(node) in AGGREGATES and not _windowed(node)]


def _aggregates(select: exp.Select) -> bool:
    return bool(_aggregate_calls(select)) or select.args.get("having") is not None


def _windowed(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        parent = parent.parent
    return isinstance(parent, exp.Window) and parent.this is not None


def _project_arguments(call: exp.Expr, projected: list[exp.Expr]) -> None:
    """Move the arguments of an aggregate into ``projected``, and restrict it to the marked rows."""

    def move(value: exp.Expr) -> None:
        if not any(isinstance(n, exp.Column) for n in value.walk()) and not value.find(exp.Query):
            return
        projected.append(value.copy())
        value.replace(sql.column(f"{sql.RESERVED}_a{len(projected) - 1}", S))

    args = call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())
    for arg in list(args):
        if isinstance(arg, exp.Distinct):
            for item in list(arg.expressions):
                move(item)
        elif isinstance(arg, exp.Order):
            for item in list(arg.expressions):
                move(item.this)
        elif not isinstance(arg, exp.Star):
            move(arg)
    node: exp.Expr = call
    mark: exp.Expr = sql.column(_MARK, S)
    while isinstance(node.parent, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        node = node.parent
        order = node.args.get("expression")
        for item in order.expressions if isinstance(order, exp.Order) else []:
            move(item.this)
    if isinstance(node.parent, exp.Filter):
        condition = node.parent.args["expression"]
        move(condition.this)
        condition.set("this", exp.and_(mark, condition.this))
    else:
        node.replace(exp.Filter(this=node.copy(), expression=exp.Where(this=mark)))
