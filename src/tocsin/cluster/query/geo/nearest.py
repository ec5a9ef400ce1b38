"""The k nearest rows of each point, without comparing every point with every row.

``LATERAL (SELECT … FROM T h ORDER BY distance(h.lat, h.lon, o.lat, o.lon) LIMIT k)`` is a nested loop in Spark, and a
sort of all pairs. Here the points ``o`` are grouped by grid cell, and the candidates are computed once for each cell:
with c its centre, rho the distance of its farthest point and D the distance from c to the k-th nearest row, every row
that is among the k nearest of any point of the cell is within D + 2 rho of c (triangle inequality, twice). The choice
is then made within each row of ``o``: of its candidates (some hundred in the middle of a city) only the few are kept
whose straight line through the earth is not longer than the k-th shortest, and only their distances are computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.geo import distance_join, geodesy
from tocsin.cluster.query.relations import Candidates

CELL = 1000.0  # metres: smaller cells mean fewer candidates for each point, but more cells to compute
POSITION = f"{sql.RESERVED}_position"  # the placeholder for 1, 2, … k in a select list
_X, _I, _L, _R, _F = (f"{sql.RESERVED}_{letter}" for letter in "xilrf")
#: From this many candidates for each result row, preselecting a few is faster.
FEW = 4
_BLOCKERS = (
    "group",
    "having",
    "distinct",
    "joins",
    "laterals",
    "windows",
    "qualify",
    "offset",
    "with_",
    "sort",
    "sample",
)


@dataclass
class _Nearest:
    select: exp.Select
    table: exp.Expr
    columns: tuple[str, ...]
    lat: exp.Expr
    lon: exp.Expr
    point: tuple[exp.Expr, exp.Expr]
    k: int


def is_nearest(select: exp.Select) -> bool:
    return _match(select) is not None


def rewrite(tree: exp.Query) -> exp.Query:
    """Rewrite all laterals of this form; others that order by distance only skip rows without a position."""
    counter = 0
    for lateral in list(tree.find_all(exp.Lateral)):
        query = lateral.this.this if isinstance(lateral.this, exp.Subquery) else None
        outer, join = lateral.find_ancestor(exp.Select), lateral.parent
        if not isinstance(query, exp.Select) or outer is None or not isinstance(join, exp.Join):
            continue
        found = _match(query)
        if found is not None and _join(found, lateral, join, outer, f"{sql.RESERVED}_n{counter}"):
            counter += 1
    for select in list(tree.find_all(exp.Select)):
        _placed(select)
        if isinstance(select.parent, exp.Subquery) and isinstance(select.parent.parent, exp.Lateral):
            _order_inside(select)
    return tree


def _distance(term: exp.Expr) -> exp.Expr | None:
    """The distance of an ascending ``ORDER BY distance(…)``, also by the alias of the select list."""
    if not isinstance(term, exp.Ordered) or term.args.get("desc") or term.args.get("nulls_first") is False:
        return None
    value = term.this
    select = term.find_ancestor(exp.Select)
    if isinstance(value, exp.Column) and len(value.parts) == 1 and select is not None:
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == value.name.lower():
                value = item.this
    return value if sql.function_name(value) == "distance" and len(value.expressions) == 4 else None


def _match(select: exp.Select) -> _Nearest | None:
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is None or limit is None or any(select.args.get(key) for key in _BLOCKERS):
        return None
    amount = limit.args.get("expression")
    slots = sql.sources(select)
    value = _distance(order.expressions[0])
    if not isinstance(amount, exp.Literal) or not amount.name.isdigit() or value is None or len(slots) != 1:
        return None
    table, columns = slots[0], _columns(slots[0])
    if columns is None or not 0 < int(amount.name) <= 10_000:
        return None
    names = frozenset(name.lower() for name in columns)
    alias = sql.source_name(table)
    points = [tuple(value.expressions[:2]), tuple(value.expressions[2:])]
    mine = [[_ours(part, alias, names) for part in point] for point in points]
    if mine == [["all", "all"], ["none", "none"]]:
        inner, other = points
    elif mine == [["none", "none"], ["all", "all"]]:
        other, inner = points
    else:
        return None
    where = select.args.get("where")
    if where is not None and (where.find(exp.Query) or _outer(where.this, alias, names)):
        return None
    if any(node.find(exp.Query, exp.Window) for node in [*select.expressions, *order.expressions]):
        return None
    for item in select.expressions:
        if any(sql.function_name(n) in sql.AGGREGATES | sql.GENERATORS for n in item.walk()) or isinstance(
            item, exp.Aliases
        ):
            return None
    return _Nearest(select, table, columns, inner[0], inner[1], (other[0], other[1]), int(amount.name))


def _columns(slot: exp.Expr) -> tuple[str, ...] | None:
    if slot.args.get("joins") or slot.args.get("pivots") or slot.args.get("sample"):
        return None
    if slot.args.get("alias") is None or slot.args["alias"].args.get("columns"):
        return None
    if "relation" in slot.meta:
        names = tuple(item.name for item in slot.meta["relation"].columns)
        return (*names, "_is_new") if slot.meta["mode"] == "marked" else names
    if isinstance(slot, exp.Subquery) and isinstance(slot.this, exp.Query) and not slot.this.is_star:
        return tuple(slot.this.named_selects)
    return None


def _is_ours(column: exp.Column, alias: str, names: frozenset[str]) -> bool:
    first = str(column.parts[0].name).lower()
    return (len(column.parts) > 1 and first == alias) or (first in names and "parameter" not in column.meta)


def _ours(value: exp.Expr, alias: str, names: frozenset[str]) -> str:
    """Whether its columns are all, none or some of the columns of the table."""
    if value.find(exp.Query):
        return "some"
    kinds = {_is_ours(column, alias, names) for column in value.find_all(exp.Column)}
    return "none" if not kinds or kinds == {False} else "all" if kinds == {True} else "some"


def _outer(value: exp.Expr, alias: str, names: frozenset[str]) -> bool:
    return any(not _is_ours(column, alias, names) for column in value.find_all(exp.Column))


def _join(found: _Nearest, lateral: exp.Lateral, join: exp.Join, outer: exp.Select, name: str) -> bool:
    """Replace the lateral by a join with the candidates of the cell, and choose within each row."""
    point = exp.Tuple(expressions=[part.copy() for part in found.point])
    owned = distance_join.owners(point, outer)
    side = str(join.args.get("side") or "").upper()
    if owned is None or len(owned) != 1 or owned[0][1] is not outer or side not in ("", "LEFT"):
        return False
    source = owned[0][0]
    on = join.args.get("on")
    if (
        lateral.args.get("alias") is None
        or not distance_join.wrappable(source)
        or (on is not None and not (isinstance(on, exp.Boolean) and on.this))
    ):
        return False
    if distance_join.depends_outside(source) or distance_join.depends_outside(found.table):
        return False
    items = _items(found)
    if items is None:
        return False
    lat, lon = found.point
    candidates = _candidates(found, source, lat, lon, name)
    vector = {f"{name}{letter}": value for letter, value in geodesy.unit_vector(lat, lon).items()}
    wrapped = distance_join.wrap(source, outer, {name: geodesy.cell_of(lat, lon, CELL), **vector})
    here = [sql.column(each, str(wrapped.alias)) for each in vector]
    same = exp.EQ(this=sql.column(name, str(wrapped.alias)), expression=sql.column(name, f"{name}c"))
    joins = list(outer.args["joins"])
    at = next(index for index, item in enumerate(joins) if item is join)
    alias = lateral.args["alias"]
    columns = alias.args.get("columns") or [exp.to_identifier(label, quoted=True) for label, _ in items]
    rows = sql.call("inline", _rows(found, items, sql.column("list", f"{name}c"), here))
    new_alias = exp.TableAlias(this=alias.this, columns=columns)
    left = {"side": "LEFT"} if side == "LEFT" else {}
    first, later = exp.Join(this=candidates, on=same, **left), joins[at + 1 :]
    if _last(outer, later, str(alias.name).lower(), {str(column.name).lower() for column in columns}):
        # A lateral view works on the joined rows; a lateral join would be a join with every pair of the tables before
        # it, before WHERE filters them, with the candidates as its key.
        view = exp.Lateral(this=rows, view=True, outer=bool(left), alias=new_alias)
        view.meta["nearest"] = True
        views = list(outer.args.get("laterals") or [])
        ours = sum("nearest" in each.meta for each in views)
        outer.set("laterals", [*views[:ours], view, *views[ours:]])
        outer.set("joins", [*joins[:at], first, *later])
    else:
        chosen = exp.Lateral(this=rows, view=False, outer=False, alias=new_alias)
        second = exp.Join(this=chosen, **({"side": "LEFT", "on": exp.true()} if left else {"kind": "CROSS"}))
        outer.set("joins", [*joins[:at], first, second, *later])
    for helper in (name, "list"):
        sql.hide(outer, f"{name}c", helper)
    many, one = distance_join.read(wrapped), distance_join.read(found.table)
    if many is not None and one is not None:
        distance_join.build(outer, Candidates(distance_join.quoted(f"{name}c"), many[0], 1, one[0]))
    return True


def _last(outer: exp.Select, later: list[exp.Expr], alias: str, columns: set[str]) -> bool:
    """Whether the chosen rows may be joined after the joins that follow them in the text."""
    if not later:
        return True
    for join in later:
        if str(join.args.get("side") or "").upper() in ("RIGHT", "FULL") or join.args.get("using"):
            return False
        if join.args.get("method"):  # NATURAL
            return False
        for column in join.find_all(exp.Column):
            first = str(column.parts[0].name).lower()
            if first == alias or (len(column.parts) == 1 and first in columns):
                return False
    # A star lists the columns in the order of the tables.
    return not any(isinstance(item, exp.Star) for item in outer.expressions)


def _candidates(found: _Nearest, source: exp.Expr, lat: exp.Expr, lon: exp.Expr, name: str) -> exp.Expr:
    """One row for each cell: the rows of the table that can be among the k nearest of a point in it."""
    cells = sql.expression("SELECT cell, x AS la, y AS lo, max(d) AS rho FROM p GROUP BY cell, x, y")
    place = {"la": lat.copy(), "lo": lon.copy(), "cell": geodesy.cell_of(lat, lon, CELL)}
    points = exp.select(*_named(place)).from_(source.copy())
    centre = sql.expression("SELECT la, lo, cell FROM p WHERE cell IS NOT NULL")
    _put(centre, points, f"{name}a")
    x, y = geodesy.centre_of(exp.column("cell"), CELL)
    centred = exp.select("la", "lo", "cell", *_named({"x": x, "y": y})).from_(sql.derived(centre, f"{name}b"))
    away = geodesy.distance(*(exp.column(c) for c in ("la", "lo", "x", "y")))
    measured = exp.select("cell", "x", "y", *_named({"d": away})).from_(sql.derived(centred, f"{name}d"))
    _put(cells, measured, f"{name}e")
    row = sql.call("struct", *[sql.column(column, str(found.table.alias)) for column in found.columns])
    columns = {"t": row, "a": geodesy.as_double(found.lat), "b": geodesy.as_double(found.lon)}
    table = exp.select(*_named(columns | geodesy.unit_vector(found.lat, found.lon))).from_(found.table.copy())
    where = found.select.args.get("where")
    if where is not None:
        table = table.where(where.this.copy())
    pairs = sql.expression("SELECT g.cell, g.rho, h.t, h.x, h.y, h.z, 0 AS d FROM g CROSS JOIN h")
    pairs.expressions[-1].replace(
        exp.alias_(
            geodesy.distance(*(exp.column(c, t) for c, t in (("la", "g"), ("lo", "g"), ("a", "h"), ("b", "h")))), "d"
        )
    )
    for slot in sql.sources(cast(exp.Select, pairs)):
        inner = cells if slot.name == "g" else table
        slot.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(slot.name))))
    # One metre covers the rounding of the distances.
    reach = f"coalesce(try_element_at(array_sort(collect_list(d)), {found.k}), double('Infinity')) + 2 * rho + 1"
    grouped = sql.expression(
        f"SELECT cell, collect_list(named_struct('d', d, 't', t, 'x', x, 'y', y, 'z', z)) AS every, {reach} AS reach"
        " FROM p WHERE d IS NOT NULL GROUP BY cell, rho"
    )
    _put(grouped, pairs, f"{name}p")
    # Spark would compute ``reach``, with its sort, for each row; bound to a name it is computed once for each cell.
    near = f"filter(every, {_X} -> {_X}.d <= {_R})"
    final = sql.expression(f"SELECT cell AS `{name}`, flatten(transform(array(reach), {_R} -> {near})) AS list FROM p")
    _put(final, grouped, f"{name}q")
    return sql.derived(final, f"{name}c")


def _named(values: Mapping[str, exp.Expr]) -> list[exp.Expr]:
    return [exp.alias_(value, name) for name, value in values.items()]


def _put(query: exp.Expr, inner: exp.Expr, alias: str) -> None:
    """Replace the table ``p`` in a generated query."""
    table = next(item for item in query.find_all(exp.Table) if item.name == "p")
    table.replace(sql.derived(inner, alias))


def _items(found: _Nearest) -> list[tuple[str, exp.Expr]] | None:
    """The select list as (name, value over one candidate)."""
    out: list[tuple[str, exp.Expr]] = []
    for item in found.select.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            if isinstance(item, exp.Column) and str(item.table).lower() != sql.source_name(found.table):
                return None
            if star.args.get("replace") or star.args.get("rename"):
                return None
            hidden = {str(node.name).lower() for node in star.args.get("except_") or []}
            shown = [column for column in found.columns if column.lower() not in hidden]
            out += [(column, sql.column(column, str(found.table.alias))) for column in shown]
            continue
        if not item.alias_or_name:
            return None
        out.append((str(item.alias_or_name), item.unalias()))
    return out


def _over(found: _Nearest, value: exp.Expr, variable: str) -> exp.Expr:
    """An expression in which the columns of the table are read from a candidate."""
    names = frozenset(name.lower() for name in found.columns)
    alias = sql.source_name(found.table)
    holder = exp.Paren(this=value.copy())
    for column in list(holder.find_all(exp.Column)):
        if not _is_ours(column, alias, names):
            continue
        parts = [str(part.name) for part in column.parts]
        if len(parts) > 1 and parts[0].lower() == alias:
            parts = parts[1:]
        column.replace(_field(variable, "t", *parts))
    for call in [n for n in holder.find_all(exp.Anonymous) if n.name.lower() == POSITION]:
        call.replace(sql.expression(f"{_I} + 1"))
    return cast(exp.Expr, holder.this)


def _field(variable: str, *parts: str) -> exp.Expr:
    """A field of a candidate: its row ``t``, its unit vector ``x, y, z``."""
    node: exp.Expr = exp.to_identifier(variable)
    for part in parts:
        node = exp.Dot(this=node, expression=exp.to_identifier(part, quoted=True))
    return node


def _rows(
    found: _Nearest, items: list[tuple[str, exp.Expr]], candidates: exp.Expr, here: Sequence[exp.Expr]
) -> exp.Expr:
    """An array of the k nearest as structs of the select list, ordered. ``here``: the unit vector of the point."""
    terms = found.select.args["order"].expressions
    aliases = {item.alias.lower(): item.this for item in found.select.expressions if isinstance(item, exp.Alias)}
    keys = []
    for index, term in enumerate(terms):
        value = term.this
        if isinstance(value, exp.Column) and len(value.parts) == 1 and value.name.lower() in aliases:
            value = aliases[value.name.lower()]
        keys += [exp.Literal.string(f"k{index}"), _over(found, value, _X)]
    few = exp.to_identifier(_F)
    # Sort positions in the list instead of rows: they are small, and comparable for all types.
    keyed = sql.call("named_struct", *keys, exp.Literal.string("i"), exp.to_identifier(_I))
    keyed_all = sql.call("transform", few.copy(), _lambda(keyed, _X, _I))
    plain = all(not term.args.get("desc") and term.args.get("nulls_first") is not False for term in terms)
    # Spark sorts structs in the default order of ORDER BY, many times faster than with a comparator.
    ordered = sql.call("array_sort", keyed_all, *([] if plain else [_comparator(terms)]))
    first = sql.call("slice", ordered, exp.Literal.number(1), exp.Literal.number(found.k))
    rows = sql.call("transform", first, _lambda(sql.expression(f"element_at({_F}, {_X}.i + 1)"), _X))
    fields: list[exp.Expr] = []
    for label, value in items:
        fields += [exp.Literal.string(label), _over(found, value, _X)]
    chosen = sql.call("transform", rows, _lambda(sql.call("named_struct", *fields), _X, _I))
    return _bound(_few(found.k, candidates, here), _F, chosen)


def _few(k: int, candidates: exp.Expr, here: Sequence[exp.Expr]) -> exp.Expr:
    """The candidates that may be among the k nearest, found without trigonometry."""
    chord = geodesy.chord([*here, *(_field(_X, letter) for letter in "xyz")])
    chords = sql.call("transform", candidates.copy(), _lambda(chord, _X))
    last = sql.call("element_at", sql.call("array_sort", chords), exp.Literal.number(k))
    limit = geodesy.fill(geodesy.CHORD_SLACK, {"c": exp.to_identifier(_L)})
    near = exp.LTE(this=chord.copy(), expression=exp.to_identifier(_R))
    taken = _bound(limit, _R, sql.call("filter", candidates.copy(), _lambda(near, _X)))
    choice = sql.expression(f"CASE WHEN size(p) > {FEW * k} THEN q ELSE p END")
    few = _bound(last, _L, taken)
    for column in list(choice.find_all(exp.Column)):
        column.replace((few if column.name == "q" else candidates).copy())
    return choice


def _bound(value: exp.Expr, name: str, body: exp.Expr) -> exp.Expr:
    """Bind ``value`` to a name in ``body``; otherwise Spark would compute it again for each use."""
    return sql.call("flatten", sql.call("transform", sql.call("array", value), _lambda(body, name)))


def _lambda(body: exp.Expr, *variables: str) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in variables])


def _comparator(terms: list[exp.Expr]) -> exp.Expr:
    """ORDER BY as a comparison of two candidates, with the direction and the order of nulls of Spark."""
    text = "0"
    for index, term in reversed(list(enumerate(terms))):
        left, right = f"{_L}.k{index}", f"{_R}.k{index}"
        nulls_first = term.args.get("nulls_first")
        descending = bool(term.args.get("desc"))
        less = -1 if not descending else 1
        null = -1 if (nulls_first if nulls_first is not None else not descending) else 1
        text = (
            f"CASE WHEN {left} <=> {right} THEN {text} WHEN {left} IS NULL THEN {null}"
            f" WHEN {right} IS NULL THEN {-null} WHEN {left} < {right} THEN {less} ELSE {-less} END"
        )
    return _lambda(sql.expression(text), _L, _R)


def _placed(select: exp.Select) -> None:
    """Spark sorts nulls first, but a row without a position is not near."""
    order = select.args.get("order")
    if order is None or select.args.get("limit") is None or select.args.get("group") or select.args.get("distinct"):
        return
    value = _distance(order.expressions[0])
    if value is not None:
        select.where(exp.Not(this=exp.Is(this=value.copy(), expression=exp.null())), copy=False)


def _order_inside(select: exp.Select) -> None:
    """Spark refuses outer columns in ORDER BY, so they become columns of the table."""
    slots = sql.sources(select)
    order = select.args.get("order")
    if order is None or len(slots) != 1 or not distance_join.wrappable(slots[0]):
        return
    columns = _columns(slots[0])
    if columns is None or select.args.get("group"):
        return
    names = frozenset(name.lower() for name in columns)
    alias = str(slots[0].alias)
    outputs = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
    for index, term in enumerate(order.expressions):
        bare = isinstance(term.this, exp.Column) and len(term.this.parts) == 1 and term.this.name.lower() in outputs
        if bare or not _outer(term.this, alias.lower(), names) or term.this.find(exp.Query):
            continue
        name = f"{sql.RESERVED}_o{index}"
        distance_join.wrap(sql.sources(select)[0], select, {name: term.this.copy()})
        term.set("this", sql.column(name, alias))
