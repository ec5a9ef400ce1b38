"""Rewrites ``within`` between two tables into an equality join on grid cells plus the exact test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.geo import geodesy
from tocsin.cluster.query.relations import Build, Use

#: About how many cells of half the radius a circle touches.
CELLS = 22
#: The placeholder in a hint for the table to hash, or for none.
BUILD = f"{sql.RESERVED}_build"


@dataclass
class _PointSide:
    """A point: the source that has it, and the SELECT of that source."""

    lat: exp.Expr
    lon: exp.Expr
    source: exp.Expr
    select: exp.Select
    local: bool

    def add(self, name: str, steps: list[geodesy.Step], places: bool = False) -> None:
        """``places``: only rows with a position; without NULL, Spark need not test the cell again."""
        where = geodesy.is_place(self.lat, self.lon) if places else None
        for step in steps:
            self.source = wrap(self.source, self.select, {name + letter: step[letter] for letter in step}, where)
            where = None

    def own(self, name: str) -> geodesy.Own:
        return lambda letter: sql.column(name + letter, str(self.source.alias))

    @property
    def new(self) -> bool:
        return self.source.meta.get("mode") == "new"


def rewrite(tree: exp.Query) -> exp.Query:
    """Rewrite every ``within`` that is a top-level condition of WHERE or ON; ``geodesy.expand`` handles the others."""
    counter = 0
    for select in list(tree.find_all(exp.Select)):
        where = select.args.get("where")
        slots: list[tuple[exp.Expr, str, exp.Join | None]] = []
        if where is not None:
            slots.append((where, "this", None))
        slots += [(join, "on", join) for join in select.args.get("joins") or [] if join.args.get("on") is not None]
        for holder, key, join in slots:
            terms = sql.conjuncts(holder.args[key])
            changed = False
            for index, term in enumerate(terms):
                if sql.function_name(term) != "within":
                    continue
                geodesy.check_arity(term, "within", 5)
                joined = _join(term, select, join, f"{sql.RESERVED}_c{counter}")
                if joined is not None:
                    counter += 1
                    changed = True
                    terms[index] = joined
            if changed:
                holder.set(key, sql.conjunction(terms))
                if join is not None and str(join.args.get("kind") or "").upper() == "CROSS":
                    join.set("kind", None)
    return tree


def owners(value: exp.Expr, select: exp.Select) -> list[tuple[exp.Expr, exp.Select]] | None:
    """The sources whose columns an expression uses; None if unknown."""
    if value.find(exp.Query):
        return None
    found: list[tuple[exp.Expr, exp.Select]] = []
    for column in value.find_all(exp.Column):
        owner = _owner(column, select)
        if owner is None:
            return None
        if not any(owner[0] is item for item, _ in found):
            found.append(owner)
    return found


def _owner(column: exp.Column, select: exp.Select) -> tuple[exp.Expr, exp.Select] | None:
    first = str(column.parts[0].name).lower()
    here: exp.Select | None = select
    while here is not None:
        slots = sql.sources(here)
        if len(column.parts) > 1:
            for slot in slots:
                if sql.source_name(slot) == first:
                    return slot, here
        known = [slot for slot in slots if first in (columns_of(slot) or ())]
        if len(known) == 1 and (len(column.parts) == 1 or isinstance(known[0], exp.Table)):
            return known[0], here
        if known or any(columns_of(slot) is None for slot in slots):
            return None
        here = here.find_ancestor(exp.Select)
    return None


def columns_of(slot: exp.Expr) -> frozenset[str] | None:
    """The columns of a source, if they are known without Spark."""
    alias = slot.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
        return frozenset(str(item.name).lower() for item in alias.args["columns"])
    if "relation" in slot.meta and not slot.args.get("pivots"):
        return frozenset(item.name.lower() for item in slot.meta["relation"].columns)
    query = slot.this.this if isinstance(slot, exp.Lateral) and isinstance(slot.this, exp.Subquery) else slot.this
    if isinstance(query, exp.Query) and not query.is_star and not slot.args.get("pivots"):
        return frozenset(name.lower() for name in query.named_selects)
    if isinstance(query, exp.Select) and len(sql.sources(query)) == 1 and len(query.expressions) >= 1:
        inner = columns_of(sql.sources(query)[0])
        if inner is not None:
            return inner | frozenset(name.lower() for name in query.named_selects if name != "*")
    return None


def wrappable(source: exp.Expr) -> bool:
    """Whether it can become ``(SELECT *, … FROM source) alias``."""
    return (
        isinstance(source, exp.Table | exp.Subquery)
        and bool(source.alias)
        and not source.args.get("joins")
        and isinstance(source.parent, exp.From | exp.Join)
    )


def wrap(
    source: exp.Expr, select: exp.Select, extra: Mapping[str, exp.Expr], where: exp.Expr | None = None
) -> exp.Subquery:
    """Add helper columns to a source; its alias stays the same, and stars do not show the columns."""
    alias = str(source.alias)
    inner = exp.select("*")
    for name, value in extra.items():
        inner = inner.select(exp.alias_(value, name, quoted=True, copy=False), copy=False)
    new = sql.derived(inner, alias)
    new.meta.update({key: source.meta[key] for key in ("mode",) if key in source.meta})
    source.replace(new)
    inner.set("from_", exp.From(this=source))
    if where is not None:
        inner.set("where", exp.Where(this=where))
    for name in extra:
        sql.hide(select, alias, name)
    return new


def _side(lat: exp.Expr, lon: exp.Expr, select: exp.Select) -> _PointSide | None:
    found = owners(exp.Tuple(expressions=[lat.copy(), lon.copy()]), select)
    if found is None or len(found) != 1 or not wrappable(found[0][0]):
        return None
    source, owner = found[0]
    return _PointSide(lat, lon, source, owner, owner is select)


def _join(term: exp.Expr, select: exp.Select, join: exp.Join | None, name: str) -> exp.Expr | None:
    a, b, c, d, metres = term.expressions
    left, right = _side(a, b, select), _side(c, d, select)
    if left is None or right is None or left.source is right.source:
        return None
    radius = owners(metres.copy(), select) if geodesy.number(metres) is None else []
    if radius is None or len(radius) > 1:
        return None
    owner = radius[0][0] if radius else None
    for exploded, single, free in _order(left, right, join):
        limits = _rewire(exploded, single, free, metres, owner, name)
        if limits is not None:
            if free and len(sql.sources(select)) == 2:
                _hint(select, exploded, single)
            ours, theirs = exploded.own(name), single.own(name)
            vectors = [side(letter) for side in (ours, theirs) for letter in "xyz"]
            same = exp.EQ(this=ours(""), expression=theirs(""))
            return exp.and_(same, geodesy.is_within(term, vectors, limits))
    return None


def _hint(select: exp.Select, exploded: _PointSide, single: _PointSide) -> None:
    """Spark does not know that the circles become many rows, and would hash those; see ``relations.Build``."""
    many, one = read(exploded.source), read(single.source)
    if many is not None and one is not None:
        build(select, Build(quoted(str(single.source.alias)), many[0], CELLS, one[0]))


def quoted(alias: str) -> str:
    return sql.to_sql(exp.to_identifier(alias, quoted=True))


def build(select: exp.Select, choice: Build) -> None:
    """A placeholder for the hint which table to hash, unless there is one; each execution chooses the table."""
    if select.args.get("hint"):
        return
    table = exp.to_identifier(BUILD)
    table.meta["build"] = choice
    select.set("hint", exp.Hint(expressions=[sql.call("BROADCAST", exp.Column(this=table))]))


def read(source: exp.Expr) -> tuple[Use | None] | None:
    """The relation that a source reads, if it is a single one; (None,) means the subscriptions."""
    tables = list(source.find_all(exp.Table))
    if len(tables) != 1:
        return None
    if "relation" in tables[0].meta:
        return (Use(tables[0].meta["relation"], tables[0].meta["mode"]),)
    return (None,) if source.alias == f"{sql.RESERVED}_s" else None


def _order(left: _PointSide, right: _PointSide, join: exp.Join | None) -> list[tuple[_PointSide, _PointSide, bool]]:
    """(exploded, single, whether the single side may explode too), best first: new rows are few, so they explode."""
    kind = str(join.args.get("kind") or "").upper() if join is not None else ""
    side = str(join.args.get("side") or "").upper() if join is not None else ""
    if side in ("RIGHT", "FULL") or not (left.local or right.local):
        return []
    if left.local != right.local:
        # The other point is in an enclosing query, whose rows must not be multiplied.
        return [(left, right, False)] if left.local else [(right, left, False)]
    if join is not None and (side == "LEFT" or kind in ("SEMI", "ANTI")):
        inside = [s for s in (left, right) if s.source is join.this]
        outside = [s for s in (left, right) if s.source is not join.this]
        return [(inside[0], outside[0], False)] if len(inside) == 1 else []
    return (
        [(right, left, True), (left, right, True)]
        if right.new and not left.new
        else [(left, right, True), (right, left, True)]
    )


def _rewire(
    exploded: _PointSide, single: _PointSide, free: bool, metres: exp.Expr, owner: exp.Expr | None, name: str
) -> tuple[exp.Expr, exp.Expr] | None:
    """Add the column ``name`` to both sides: the cells of the circle on one, the cell of the point on the other.

    Returns the limits of the squared chord; None if it is not possible.
    """
    fixed = geodesy.number(metres)
    limits = geodesy.chord_limits(metres)
    if fixed is not None:
        # With half the radius, the cells that a circle touches cover a third less area than with the whole radius.
        grid = geodesy.Grid.fixed(fixed, fixed / 2)
    elif owner is single.source or (free and (owner is exploded.source or owner is None)):
        # Each row has its own radius and so its level of the grid; the other side uses all levels that occur.
        narrow, wide = (single, exploded) if owner is single.source else (exploded, single)
        in_use = sql.call("explode", _levels(narrow.source, metres))
        wide.add(name, geodesy.level_steps(in_use, None, wide.own(name)))
        own = geodesy.level_steps(geodesy.level_of(metres), metres, narrow.own(name))
        narrow.add(name, [own[0] | dict(zip("qs", limits, strict=True)), *own[1:]])
        limits = narrow.own(name)("q"), narrow.own(name)("s")
        grid = geodesy.Grid.levels()
    else:
        return None
    exploded.add(name, geodesy.circle_steps(exploded.lat, exploded.lon, grid, exploded.own(name)), places=True)
    single.add(name, geodesy.point_steps(single.lat, single.lon, grid, single.own(name), not free), places=free)
    return limits


def _levels(source: exp.Expr, metres: exp.Expr) -> exp.Expr:
    """The levels that occur in the data: mostly one or two of eleven."""
    if depends_outside(source):
        return geodesy.all_levels()
    return exp.Subquery(this=exp.select(sql.call("collect_set", geodesy.level_of(metres))).from_(source.copy()))


def depends_outside(source: exp.Expr) -> bool:
    """Whether a source uses columns of other sources or of an enclosing query."""
    return any(_foreign(node, source) for node in source.find_all(exp.Column))


def _foreign(column: exp.Column, source: exp.Expr) -> bool:
    """Whether a column in a derived table comes from outside of it."""
    node = column.find_ancestor(exp.Select)
    if node is None:
        return True
    first = str(column.parts[0].name).lower()
    while isinstance(node, exp.Select):
        if len(column.parts) == 1 or any(sql.source_name(slot) == first for slot in sql.sources(node)):
            return False
        if node.parent is source:
            return True
        node = node.find_ancestor(exp.Select)
    return True
