"""Parses columns and parameters; their types become canonical Spark DDL."""

from __future__ import annotations

from tocsin.cluster.model import Column, Parameter
from tocsin.cluster.records import type_ddl
from tocsin.cluster.statements.token_cursor import RESERVED_COLUMNS, Cursor, quote
from tocsin.errors import LimitExceeded, TypeMismatch


def read_columns(cursor: Cursor, of: str = "dataset") -> tuple[Column, ...]:
    """``(name type [NOT NULL], …)``: at least one column, and no repeated names."""
    cursor.expect("(", hint=f"the columns follow the name of the {of}: (id string, at timestamp, …)")
    seen: set[str] = set()

    def column() -> Column:
        if cursor.at("PRIMARY"):
            cursor.fail("PRIMARY KEY follows the closing ')' of the columns", hint="… (id string, …) PRIMARY KEY id")
        name = _unique(cursor, "a column", seen)
        if cursor.peek().text in (",", ")"):
            cursor.fail(
                f"column {name!r} needs a type, found {quote(cursor.peek())}", hint=f"for instance: {name} string"
            )
        kind = read_type(cursor)
        if cursor.at("PRIMARY"):
            cursor.fail(
                "PRIMARY KEY follows the closing ')' of the columns", hint=f"… ({name} {kind}, …) PRIMARY KEY {name}"
            )
        return Column(name, kind, nullable=not _not_null(cursor))

    opening = cursor.peek()
    columns = cursor.items(column)
    if not columns:
        cursor.fail(f"a {of} needs at least one column", at=opening)
    return tuple(columns)


def read_parameters(cursor: Cursor, *, typed: bool) -> tuple[Parameter, ...]:
    """``(p type, …)``; unless ``typed``, a parameter without a type is a string."""
    cursor.expect("(")
    seen: set[str] = set()

    def parameter() -> Parameter:
        name = _unique(cursor, "a parameter", seen)
        if cursor.peek().text not in (",", ")"):
            return Parameter(name, read_type(cursor))
        if typed:
            cursor.fail(
                f"parameter {name!r} needs a type, found {quote(cursor.peek())}", hint=f"for instance: {name} string"
            )
        return Parameter(name)

    return tuple(cursor.items(parameter))


def read_type(cursor: Cursor) -> str:
    """A type in its canonical spelling."""
    parser = type_ddl.TypeParser(cursor.tokens, cursor.position, cursor.tokens[-1].end)
    try:
        kind = parser.type()
    except (TypeMismatch, LimitExceeded) as error:
        cursor.fail(error.message, at=parser.place, hint=error.hint)
    cursor.position = parser.next
    if cursor.at("<"):
        cursor.fail(f"the type {type_ddl.type_name(kind)!r} takes no '<…>'", hint="array, map and struct do")
    return type_ddl.type_name(kind)


def _unique(cursor: Cursor, what: str, seen: set[str]) -> str:
    token = cursor.peek()
    name = cursor.name(what, RESERVED_COLUMNS)
    if name.lower() in seen:
        cursor.fail(f"{what.split()[-1]} {name!r} appears twice", at=token, hint="names compare without regard to case")
    seen.add(name.lower())
    return name


def _not_null(cursor: Cursor) -> bool:
    if not cursor.accept("NOT"):
        return False
    cursor.expect("NULL")
    return True
