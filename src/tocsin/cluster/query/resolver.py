"""Resolves every name of a query: relations, functions, parameters, ``is_new``, channel times."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlglot import exp

from tocsin.cluster.model import Function, Parameter
from tocsin.cluster.query import safety
from tocsin.cluster.query import spark_dialect as sql
from tocsin.cluster.query.relations import NEW_COLUMN, Mode, Names, Relation
from tocsin.errors import BodyRefused

DEEPEST = 16


@dataclass
class _Source:
    name: str
    select: exp.Select | None
    relation: Relation | None = None
    table: exp.Table | None = None
    columns: frozenset[str] | None = None
    nullable: bool = False
    mode: Mode = "all"


@dataclass
class _Scope:
    parent: _Scope | None
    ctes: frozenset[str]
    sources: dict[str, _Source] = field(default_factory=dict)

    def find(self, name: str) -> _Source | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.sources:
                return scope.sources[name]
            scope = scope.parent
        return None


class Resolver:
    """Resolves one body or one inlined function; ``resolve`` changes the tree in place."""

    def __init__(
        self,
        names: Names,
        parameters: Mapping[str, Callable[[], exp.Expr]],
        *,
        channel: bool,
        functions: set[str] | None = None,
        stack: tuple[str, ...] = (),
    ) -> None:
        self.names = names
        self.parameters = parameters
        self.channel = channel
        self.functions: set[str] = set() if functions is None else functions
        self.stack = stack

    def resolve(self, root: exp.Query) -> exp.Query:
        holder = exp.Subquery(this=root)
        self._query(root, _Scope(None, frozenset()))
        return cast(exp.Query, holder.this)

    # queries

    def _query(self, node: exp.Expr, outer: _Scope) -> None:
        ctes = self._with(node, outer)
        scope = _Scope(outer, ctes)
        if isinstance(node, exp.Select):
            self._select(node, scope)
            return
        if isinstance(node, exp.Subquery):
            self._query(node.this, scope)
        elif isinstance(node, exp.SetOperation):
            for side in (node.left, node.right):
                if isinstance(side, exp.Table):
                    raise BodyRefused("a table name alone is not a query", hint="write SELECT * FROM …")
                self._query(side, scope)
        elif isinstance(node, exp.Values):
            self._children(node, scope, frozenset())
            return
        else:
            raise BodyRefused(f"the query contains a {type(node).__name__.upper()}")
        self._limits(node)
        for key in ("order", "sort", "cluster", "distribute"):
            if node.args.get(key) is not None:
                self._walk(node.args[key], scope, frozenset(name.lower() for name in node.named_selects))

    def _with(self, node: exp.Expr, outer: _Scope) -> frozenset[str]:
        ctes = outer.ctes
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        for cte in with_.expressions:
            name = str(cte.alias).lower()
            inner = ctes | {name} if with_.args.get("recursive") else ctes
            self._query(cte.this, _Scope(outer.parent, inner) if outer.parent else _Scope(None, inner))
            ctes = ctes | {name}
        return ctes

    def _select(self, select: exp.Select, scope: _Scope) -> None:
        select.set("hint", None)
        self._limits(select)
        slots = sql.sources(select)
        for slot in slots:
            self._register(slot, select, scope)
        self._nullability(select, scope)
        self._new_conjuncts(select, scope)
        for slot in slots:
            self._inside(slot, scope)
        aliases = frozenset(item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias))
        for join in self._joins(select):
            if join.args.get("on") is not None:
                self._walk(join.args["on"], scope, frozenset())
        for key, value in list(select.args.items()):
            if key in ("from_", "joins", "laterals", "with_", "limit", "offset"):
                continue
            # In GROUP BY and ORDER BY an alias of the SELECT precedes a parameter, which would be a constant.
            skip = aliases if key in ("order", "group", "sort", "cluster", "distribute") else frozenset()
            for item in list(value) if isinstance(value, list) else [value]:
                if isinstance(item, exp.Expr):
                    self._walk(item, scope, skip)

    def _joins(self, select: exp.Select) -> list[exp.Join]:
        found: list[exp.Join] = []
        for source in (select.args.get("from_"), *(select.args.get("joins") or [])):
            if source is None:
                continue
            if isinstance(source, exp.Join):
                found.append(source)
            found += [join for join in source.this.find_all(exp.Join) if join.find_ancestor(exp.Select) is select]
        return found

    def _limits(self, node: exp.Expr) -> None:
        for key in ("limit", "offset"):
            part = node.args.get(key)
            if part is None:
                continue
            value = part.args.get("expression")
            for item in value.find_all(exp.Column) if value is not None else []:
                raise BodyRefused(
                    f"{key.upper()} {item.name} is not a constant",
                    hint="Spark needs a number there; for a limit by parameter filter on row_number()",
                )

    # sources

    def _register(self, slot: exp.Expr, select: exp.Select, scope: _Scope) -> None:
        name = sql.source_name(slot)
        source = _Source(name, select)
        if isinstance(slot, exp.Table) and not isinstance(slot.this, exp.Func):
            safety.check_table_name(slot)
            if slot.args.get("db") is None and name_of(slot).lower() in scope.ctes:
                slot.meta["cte"] = name_of(slot).lower()
            else:
                source.relation = self._relation(slot)
                source.table = slot
                source.columns = frozenset(item.name.lower() for item in source.relation.columns)
        alias = slot.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
            source.columns = frozenset(item.name.lower() for item in alias.args["columns"])
        elif isinstance(slot, exp.Subquery) and isinstance(slot.this, exp.Query) and not slot.this.is_star:
            source.columns = frozenset(item.lower() for item in slot.this.named_selects if item)
        if name:
            if name in scope.sources:
                raise BodyRefused(f"two tables have the name {name!r}", hint="give one of them an alias")
            scope.sources[name] = source

    def _relation(self, table: exp.Table) -> Relation:
        shown = ".".join(str(part.name) for part in table.parts)
        relation = self.names.relation(shown)
        if relation is None:
            known = self.names.known()
            close = difflib.get_close_matches(shown.lower(), [item.lower() for item in known], 1, 0.6)
            spelled = next((item for item in known if close and item.lower() == close[0]), None)
            hint = f"did you mean {spelled}?" if spelled else "create it first"
            raise BodyRefused(f"there is no dataset {shown!r}", hint=hint, kind="dataset", name=shown)
        allowed = {"this", "db", "alias", "joins", "pivots", "sample"}
        for key, value in table.args.items():
            if value and key not in allowed:
                raise BodyRefused(f"{key.upper()} is not possible on {shown}")
        if not table.alias:
            table.set("alias", sql.table_alias(name_of(table)))
        table.meta["relation"] = relation
        table.meta["mode"] = "all"
        return relation

    def _inside(self, slot: exp.Expr, scope: _Scope) -> None:
        """A derived table sees the names that the whole SELECT sees; a lateral also sees the tables before it."""
        if isinstance(slot, exp.Lateral) and isinstance(slot.this, exp.Query):
            self._query(slot.this, scope)
        elif isinstance(slot, exp.Lateral) or (isinstance(slot, exp.Table) and isinstance(slot.this, exp.Func)):
            self._table_function(slot, slot.this, scope)
        elif isinstance(slot, exp.Table | exp.Subquery):
            if isinstance(slot, exp.Subquery):
                self._query(slot.this, _Scope(scope.parent or _Scope(None, scope.ctes), scope.ctes))
            for pivot in slot.args.get("pivots") or []:
                self._children(pivot, scope, frozenset())
        elif isinstance(slot, exp.Values):
            self._children(slot, scope, frozenset())
        else:
            raise BodyRefused(f"{type(slot).__name__.upper()} is not possible in FROM")

    def _table_function(self, slot: exp.Expr, node: exp.Expr, scope: _Scope) -> None:
        name = sql.function_name(node)
        args = node.expressions if isinstance(node, exp.Anonymous) else []
        function = self.names.function(name, len(args))
        if function is None or slot.args.get("view"):
            if name not in sql.TABLE_FUNCTIONS:
                hint = "table functions are functions you created and " + ", ".join(sorted(sql.TABLE_FUNCTIONS))
                raise BodyRefused(
                    f"there is no table function {name}@{len(args)}", hint=hint, kind="function", name=name
                )
            self._children(node, scope, frozenset())
            return
        body = self._inline(function, args, scope)
        alias = slot.args.get("alias") or sql.table_alias(function.name)
        query = exp.Subquery(this=body)
        own = set(scope.sources)
        beside = any(
            str(item.parts[0].name).lower() in own for item in body.find_all(exp.Column) if item.meta.get("outer")
        )
        if beside or isinstance(slot, exp.Lateral):
            new: exp.Expr = exp.Lateral(this=query, view=False, outer=False, alias=alias)
        else:
            query.set("alias", alias)
            new = query
        if slot.args.get("joins"):
            new.set("joins", slot.args["joins"])
        slot.replace(new)

    def _inline(self, function: Function, args: list[exp.Expr], scope: _Scope) -> exp.Query:
        key = f"{function.name.lower()}@{len(function.parameters)}"
        if key in self.stack:
            raise BodyRefused(f"the function {function.name} calls itself", name=function.name)
        if len(self.stack) >= DEEPEST:
            raise BodyRefused(f"functions are nested more than {DEEPEST} deep", name=function.name)
        given: dict[str, Callable[[], exp.Expr]] = {}
        for parameter, argument in zip(function.parameters, args, strict=True):
            holder = exp.Paren(this=argument.copy())
            self._walk(holder.this, scope, frozenset())
            self._qualify(holder, scope, function.name)
            value = cast_to(holder.this, parameter.type)
            given[parameter.name.lower()] = value.copy
        body = sql.parse(function.body)
        safety.check_tree(body)
        self.functions.add(f"{function.name}@{len(function.parameters)}")
        _rename(body, f"{sql.RESERVED}_f{len(self.functions)}_{len(self.stack)}_")
        inner = Resolver(self.names, given, channel=self.channel, functions=self.functions, stack=(*self.stack, key))
        return inner.resolve(body)

    def _qualify(self, holder: exp.Expr, scope: _Scope, function: str) -> None:
        """An argument must qualify its columns, because in the body an unqualified name is a column of the body."""
        for item in list(holder.find_all(exp.Column)):
            if "parameter" in item.meta or item.meta.get("outer"):
                continue
            item.meta["outer"] = True
            first = str(item.parts[0].name).lower()
            if len(item.parts) > 1 and scope.find(first) is not None:
                continue
            owners = [s for s in scope.sources.values() if s.columns is not None and first in s.columns]
            if not owners and len(scope.sources) == 1:
                owners = list(scope.sources.values())
            if len(owners) != 1:
                raise BodyRefused(
                    f"{item.name} in a call of {function} must be qualified", hint=f"write alias.{item.name}"
                )
            dotted = [exp.to_identifier(owners[0].name, quoted=True), *[part.copy() for part in item.parts]]
            new = exp.Column(this=dotted[1], table=dotted[0])
            result: exp.Expr = new
            new.meta["outer"] = True
            for part in dotted[2:]:
                result = exp.Dot(this=result, expression=part)
            item.replace(result)

    # expressions

    def _children(self, node: exp.Expr, scope: _Scope, skip: frozenset[str]) -> None:
        for child in list(node.iter_expressions()):
            self._walk(child, scope, skip)

    def _walk(self, node: exp.Expr, scope: _Scope, skip: frozenset[str]) -> None:
        if isinstance(node, exp.Query):
            self._query(node, scope)
        elif isinstance(node, exp.Column):
            self._column(node, scope, skip)
        elif isinstance(node, exp.Star):
            return
        elif isinstance(node, exp.Anonymous):
            self._call(node, scope, skip)
        else:
            self._children(node, scope, skip)

    def _column(self, node: exp.Column, scope: _Scope, skip: frozenset[str]) -> None:
        parts = node.parts
        first = str(parts[0].name).lower()
        make = self.parameters.get(first)
        if make is None or (isinstance(node.this, exp.Star) and len(parts) == 1):
            return
        if (len(parts) > 1 and scope.find(first) is not None) or (len(parts) == 1 and first in skip):
            return
        value = make()
        for part in parts[1:]:
            value = exp.Dot(this=value, expression=part.copy())
        parent = node.parent
        if isinstance(parent, exp.Select) and node.arg_key == "expressions":
            value = exp.alias_(value, exp.to_identifier(str(parts[-1].name), quoted=True))
        node.replace(value)

    def _call(self, node: exp.Anonymous, scope: _Scope, skip: frozenset[str]) -> None:
        name = sql.function_name(node)
        args = node.expressions
        if name == "is_new":
            self._is_new(node, scope)
            return
        if name in ("current_channel_time", "previous_channel_time"):
            if not self.channel:
                raise BodyRefused(f"{name}() can only be used in a channel", hint="use current_timestamp()")
            if args:
                raise BodyRefused(f"{name}() takes no arguments")
            return
        function = None if name in ("distance", "within") else self.names.function(name, len(args))
        if function is None:
            self._children(node, scope, skip)
            return
        body = self._inline(function, args, scope)
        if not body.is_star and len(body.selects) != 1:
            raise BodyRefused(
                f"{function.name} has {len(body.selects)} columns and cannot be a value", hint="use it in FROM"
            )
        node.replace(_as_value(body))

    # is_new

    def _new_source(self, node: exp.Anonymous, scope: _Scope) -> _Source:
        hint = "write is_new(alias) with the alias of an ACTIVE dataset of FROM"
        if not self.channel:
            raise BodyRefused("is_new can only be used in a channel", hint="compare a time column instead")
        args = node.expressions
        if len(args) != 1 or not isinstance(args[0], exp.Column) or len(args[0].parts) != 1:
            raise BodyRefused("the argument of is_new is the alias of a table", hint=hint)
        name = str(args[0].name)
        source = scope.find(name.lower())
        if source is None:
            raise BodyRefused(f"is_new({name}): FROM has no table of this name", hint=hint)
        if source.relation is None or source.table is None:
            raise BodyRefused(
                f"is_new({name}): {name} is a subquery", hint="use it inside the subquery, where the dataset is read"
            )
        if not source.relation.active:
            raise BodyRefused(f"is_new({name}): {source.relation.name} is not ACTIVE", hint="CREATE ACTIVE DATASET …")
        return source

    def _is_new(self, node: exp.Anonymous, scope: _Scope) -> None:
        source = self._new_source(node, scope)
        assert source.table is not None and source.select is not None
        if source.mode == "new":
            node.replace(exp.true())
            return
        if source.mode == "all":
            source.mode = source.table.meta["mode"] = "marked"
            if any(join.args.get("method") == "NATURAL" for join in self._joins(source.select)):
                raise BodyRefused("is_new in this place is not possible with NATURAL JOIN", hint="use JOIN … USING")
            sql.hide(source.select, source.table.alias, NEW_COLUMN)
        node.replace(_alias_like(node, sql.column(NEW_COLUMN, source.table.alias)))

    def _nullability(self, select: exp.Select, scope: _Scope) -> None:
        seen: list[str] = []
        from_ = select.args.get("from_")
        seen += [sql.source_name(source) for source in sql.flatten(from_.this)] if from_ is not None else []
        for join in select.args.get("joins") or []:
            here = [sql.source_name(item) for item in sql.flatten(join.this)]
            side = str(join.args.get("side") or "").upper()
            affected = (seen if side in ("RIGHT", "FULL") else []) + (here if side in ("LEFT", "FULL") else [])
            if str(join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
                affected = []
            for name in affected:
                if name in scope.sources:
                    scope.sources[name].nullable = True
            seen += here

    def _new_conjuncts(self, select: exp.Select, scope: _Scope) -> None:
        """``… WHERE is_new(r) AND …`` reads only the new rows of r, except under an outer join, which would change."""
        free = {source.name for source in scope.sources.values() if not source.nullable}
        where = select.args.get("where")
        if where is not None:
            rest = self._take_new(where.this, scope, select, free)
            select.set("where", exp.Where(this=rest) if rest is not None else None)
        for join in select.args.get("joins") or []:
            on = join.args.get("on")
            if on is None:
                continue
            side = str(join.args.get("side") or "").upper()
            kind = str(join.args.get("kind") or "").upper()
            if side in ("RIGHT", "FULL"):
                continue
            own = {sql.source_name(item) for item in sql.flatten(join.this)}
            inner = side == "" and kind in ("", "INNER", "CROSS")
            rest = self._take_new(on, scope, select, own | free if inner else own)
            join.set("on", rest if rest is not None else exp.true())

    def _take_new(self, condition: exp.Expr, scope: _Scope, select: exp.Select, allowed: set[str]) -> exp.Expr | None:
        terms = sql.conjuncts(condition)
        rest = []
        for term in terms:
            if isinstance(term, exp.Anonymous) and sql.function_name(term) == "is_new":
                source = self._new_source(term, scope)
                if source.select is select and source.mode in ("all", "new") and source.name in allowed:
                    assert source.table is not None
                    source.mode = source.table.meta["mode"] = "new"
                    continue
            rest.append(term)
        return condition if len(rest) == len(terms) else sql.conjunction(rest)


def name_of(table: exp.Table) -> str:
    return str(table.this.name)


def cast_to(value: exp.Expr, type_: str) -> exp.Expr:
    return exp.Cast(this=value, to=exp.Var(this=type_))


def parameter_map(parameters: tuple[Parameter, ...], make: Callable[[int], exp.Expr]) -> dict[str, Any]:
    return {item.name.lower(): (lambda index=index: make(index)) for index, item in enumerate(parameters)}


def _alias_like(node: exp.Expr, value: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        return exp.alias_(value, "is_new")
    return value


def _as_value(body: exp.Query) -> exp.Expr:
    """``SELECT x * 2`` is the expression itself; anything else becomes a scalar subquery."""
    if isinstance(body, exp.Select) and {key for key, value in body.args.items() if value} == {"expressions"}:
        item = body.selects[0]
        return exp.Paren(this=item.unalias() if isinstance(item, exp.Alias) else item)
    return exp.Subquery(this=body)


def _rename(body: exp.Query, prefix: str) -> None:
    """Give an inlined body new aliases, so that ``h.lat`` in an argument is never the ``h`` of the body."""
    names: set[str] = set()
    for select in body.find_all(exp.Select):
        for slot in sql.sources(select):
            name = str(slot.alias_or_name)
            if not name:
                continue
            names.add(name.lower())
            alias = slot.args.get("alias")
            if isinstance(alias, exp.TableAlias):
                alias.set("this", exp.to_identifier(prefix + name.lower(), quoted=True))
            else:
                slot.set("alias", sql.table_alias(prefix + name.lower()))
    for item in body.find_all(exp.Column):
        parts = item.parts
        first = parts[0]
        inside_is_new = isinstance(item.parent, exp.Anonymous) and sql.function_name(item.parent) == "is_new"
        if (len(parts) > 1 or inside_is_new) and str(first.name).lower() in names:
            first.replace(exp.to_identifier(prefix + str(first.name).lower(), quoted=True))
