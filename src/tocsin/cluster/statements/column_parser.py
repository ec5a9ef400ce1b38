"""Parses columns, parameters and their types; a type becomes canonical Spark DDL."""

from __future__ import annotations

from tocsin.cluster.model import Column, Parameter
from tocsin.cluster.statements.token_cursor import RESERVED_COLUMNS, Cursor, quote

# Type names of AsterixDB and SQL, and their names in Spark.
SYNONYMS = {
    "int8": "tinyint",
    "byte": "tinyint",
    "int16": "smallint",
    "short": "smallint",
    "int32": "int",
    "integer": "int",
    "int64": "bigint",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "bool": "boolean",
    "datetime": "timestamp",
    "uuid": "string",
}
REFUSED = {
    "point": "use two columns of type double, or struct<lat:double,lon:double>",
    "line": "use an array of struct<lat:double,lon:double>",
    "polygon": "use an array of struct<lat:double,lon:double>",
    "rectangle": "use four columns of type double",
    "circle": "use three columns of type double",
    "duration": "use a number of seconds",
}
_DEEPEST = 32


def read_columns(cursor: Cursor) -> tuple[Column, ...]:
    """``(name type [NOT NULL], …)``: at least one column, and no repeated names."""
    cursor.expect("(", hint="the columns follow the name of the dataset: (id string, at timestamp, …)")
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
        cursor.fail("a dataset needs at least one column", at=opening)
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


def read_type(cursor: Cursor, depth: int = 0) -> str:
    """A type in lower case without spaces; the fields of a struct keep their spelling."""
    token = cursor.peek()
    if token.kind != "word":
        cursor.fail_expected("a type", hint="for instance string, bigint, double, timestamp, array<string>")
    if depth > _DEEPEST:
        cursor.fail(f"the type is nested deeper than {_DEEPEST}")
    written = cursor.next().text.lower()
    if written in REFUSED:
        cursor.fail(f"there is no type {token.text!r}", at=token, hint=REFUSED[written])
    kind = SYNONYMS.get(written, written)
    if kind in ("array", "map", "struct"):
        return f"{kind}<{_inside(cursor, kind, depth + 1)}>"
    if cursor.at("<"):
        cursor.fail(f"the type {token.text!r} takes no '<…>'", hint="array, map and struct do")
    if kind == "interval":
        return _interval(cursor)
    if kind == "string" and cursor.accept("COLLATE"):
        return f"string collate {cursor.name('a collation').lower()}"
    if cursor.accept("("):
        numbers = cursor.items(lambda: str(cursor.integer("a number")))
        return f"{kind}({','.join(numbers)})"
    return kind


def _inside(cursor: Cursor, kind: str, depth: int) -> str:
    example = {"array": "array<string>", "map": "map<string,int>", "struct": "struct<a:int,b:string>"}[kind]
    cursor.expect("<", hint=f"write it like {example}")
    if kind == "struct":
        seen: set[str] = set()
        return ",".join(cursor.items(lambda: _field(cursor, seen, depth), ">"))
    text = read_type(cursor, depth)
    if kind == "map":
        cursor.expect(",", hint=f"write it like {example}")
        text += f",{read_type(cursor, depth)}"
    cursor.expect(">", hint=f"write it like {example}")
    return text


def _field(cursor: Cursor, seen: set[str], depth: int) -> str:
    quoted = cursor.peek().kind == "quoted"
    name = _unique(cursor, "a field", seen)
    cursor.accept(":")
    kind = read_type(cursor, depth)
    not_null = " not null" if _not_null(cursor) else ""
    if cursor.accept("COMMENT"):
        cursor.string("a comment")
    spelled = f"`{name.replace('`', '``')}`" if quoted else name
    return f"{spelled}:{kind}{not_null}"


def _interval(cursor: Cursor) -> str:
    units = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    text = "interval"
    for word in ("", " to"):
        if word and not cursor.accept("TO"):
            break
        if not any(cursor.at(unit) for unit in units):
            cursor.fail_expected("a unit of time", hint="write it like interval day to second")
        text += f"{word} {cursor.next().text.lower()}"
    return text


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
