"""Spark SQL as sqlglot reads and writes it, without changing what it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.errors import ParseError as SqlglotParseError

from tocsin.errors import BodyRefused, ParseError
from tocsin.sql.dialect import TocsinSpark

# No name of a user starts with this, so helper columns and aliases never collide.
RESERVED = "_tocsin"


def parse(sql: str) -> exp.Query:
    """One query; anything sqlglot cannot read is a ParseError with its place."""
    try:
        trees = sqlglot.parse(sql, read=TocsinSpark, error_level=ErrorLevel.IMMEDIATE)
    except SqlglotParseError as error:
        first = error.errors[0] if error.errors else {}
        message = first.get("description") or str(error).splitlines()[0]
        raise ParseError(message, line=first.get("line") or 1, column=first.get("col") or 1) from error
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise ParseError(
            f"the query cannot be read: {str(error).splitlines()[0] if str(error) else 'too deep'}"
        ) from error
    statements = [tree for tree in trees if tree is not None]
    if len(statements) != 1:
        raise ParseError(f"one query is expected, {len(statements)} given", hint="leave out the ';'")
    root = statements[0]
    for quantifier in list(root.find_all(exp.Any)):
        # sqlglot knows ANY only beside a comparison; in Spark it is an aggregate too.
        if not isinstance(quantifier.parent, exp.Predicate):
            quantifier.replace(exp.Anonymous(this="any", expressions=[_unwrapped(quantifier.this)]))
    if isinstance(root, exp.Values):
        root = exp.select("*").from_(root)
    if not isinstance(root, exp.Query):
        kind = type(root).__name__.upper()
        raise BodyRefused(f"only a query is allowed here, not {kind}", hint="start it with SELECT, WITH or VALUES")
    return root


def _unwrapped(node: exp.Expr) -> exp.Expr:
    return _unwrapped(node.this) if isinstance(node, exp.Paren) else node


def to_sql(node: exp.Expr) -> str:
    """Regenerates Spark SQL, so that Spark sees exactly what was checked."""
    try:
        text = node.sql(
            dialect=TocsinSpark, normalize_functions=False, unsupported_level=ErrorLevel.RAISE, comments=False
        )
    except (SqlglotError, RecursionError) as error:
        raise BodyRefused(f"the query cannot be written as Spark SQL: {error}") from error
    # Spark substitutes ${env:…} even inside literals; identifiers with ${ were refused before.
    return text.replace("${", "\\u0024{")


def expression(sql: str) -> exp.Expr:
    """An expression of our own making."""
    return _parsed(sql).copy()


@lru_cache(256)
def _parsed(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, read=TocsinSpark)


def call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True) if table else None
    )


def table_alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def derived(query: exp.Expr, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=table_alias(alias))


def function_name(node: exp.Expr) -> str:
    """The lower-case name of a function call; '' for anything else."""
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    return str(node.sql_name()).lower() if isinstance(node, exp.Func) else ""


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The terms of a top-level AND."""
    while isinstance(node, exp.Paren):
        node = node.this
    if node is None:
        return []
    if isinstance(node, exp.And):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]


def conjunction(terms: Sequence[exp.Expr]) -> exp.Expr | None:
    """The opposite of ``conjuncts``; an OR keeps its parentheses."""
    return exp.and_(*[term.copy() for term in terms], copy=False) if terms else None


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """All nodes below, but not those inside a nested query."""
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack += [child for child in item.iter_expressions(reverse=True) if not isinstance(child, exp.Query)]


def sources(select: exp.Select) -> list[exp.Expr]:
    """What stands in FROM, in order: tables, derived tables, laterals, lateral views."""
    found: list[exp.Expr] = []
    from_ = select.args.get("from_")
    if from_ is not None:
        found += flatten(from_.this)
    for join in select.args.get("joins") or []:
        found += flatten(join.this)
    found += select.args.get("laterals") or []
    return found


def flatten(source: exp.Expr) -> list[exp.Expr]:
    found = [source]
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Table | exp.Subquery) and not source.alias:
        found = flatten(source.this)
    for join in source.args.get("joins") or []:
        found += flatten(join.this)
    return found


def source_name(source: exp.Expr) -> str:
    return str(source.alias_or_name).lower()


def hide(select: exp.Select, table: str, name: str) -> None:
    """Keeps a helper column out of every star of this SELECT."""
    for node in select.args["expressions"]:
        for star in [n for n in own_nodes(node) if isinstance(n, exp.Star)]:
            parent = star.parent
            if function_name(parent) == "count" if parent is not None else False:
                continue
            if isinstance(parent, exp.Column):
                if str(parent.table).lower() != table.lower():
                    continue
                hidden: Any = column(name)
            else:
                hidden = column(name, table)
            star.set("except_", [*(star.args.get("except_") or []), hidden])
