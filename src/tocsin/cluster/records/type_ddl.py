"""Types in Spark's DDL and in Arrow, without a JVM: a small parser and its inverse.

The parsed form is an Arrow type: ``array<struct<a:int>>`` is parsed to ``list<struct<a: int32>>`` and written from
that, so that both forms cannot disagree. ``varchar(n)`` and ``char(n)`` become ``string``; their length is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.cluster.model import Column
from tocsin.cluster.records.value_validators import checker
from tocsin.config import Limits
from tocsin.errors import LimitExceeded, TypeMismatch, UserError
from tocsin.sql.scalars import InvalidValue

RESERVED = ("_ordinal", "_is_new", "_deleted", "_cell")
TYPE_DEPTH = 32

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    # Names of AsterixDB.
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "datetime": pa.timestamp("us", "UTC"),
    "uuid": pa.string(),
}
# The first spelling of each type is the canonical one.
_NAMES: dict[pa.DataType, str] = {kind: name for name, kind in reversed(_SIMPLE.items())}
_DECIMAL = {"decimal", "dec", "numeric"}
_NESTED = {"array", "map", "struct"}
_REFUSED = {"interval", "variant", "void", "null", "time", "geometry", "geography", "object"}
_KNOWN = "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, "
_INSTEAD = {
    "point": "use two columns of type double, or struct<lat:double,lon:double>",
    "line": "use an array of struct<lat:double,lon:double>",
    "polygon": "use an array of struct<lat:double,lon:double>",
    "rectangle": "use four columns of type double",
    "circle": "use three columns of type double",
    "duration": "use a number of seconds",
}
_HINT = f"the types are {_KNOWN}timestamp_ntz, array<t>, map<k,v> and struct<a:t,…>"

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*)|(\d+)|([<>(),:])|('(?:[^'\\]|\\.)*'))", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Token(NamedTuple):
    text: str
    start: int


class TypeParser:
    """Recursive descent over the tokens of a text, from the token ``next`` on."""

    def __init__(self, tokens: Sequence[Any], next: int, end: int) -> None:
        self.tokens = tokens
        self.next = next
        self.end = end

    @property
    def place(self) -> int:
        """The offset of the next token; after an error, of the token that is wrong."""
        return int(self.tokens[self.next].start) if self.next < len(self.tokens) else self.end

    def error(self, message: str, hint: str = _HINT) -> TypeMismatch:
        return TypeMismatch(message, hint=hint, position=self.place)

    def peek(self) -> str:
        return self.tokens[self.next].text if self.next < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(f"{token!r} expected, found {self.peek() or 'the end'!r}")
        self.next += 1

    def number(self) -> int:
        if not self.peek().isdecimal() or len(self.peek()) > 9:
            raise self.error(f"a number expected, found {self.peek() or 'the end'!r}")
        return int(self.take())

    def type(self, depth: int = 1) -> pa.DataType:
        if depth > TYPE_DEPTH:
            raise LimitExceeded(f"a type is nested deeper than {TYPE_DEPTH}", limit=TYPE_DEPTH)
        name = self.peek().lower()
        if name in _REFUSED:
            raise self.error(f"{name!r} cannot be the type of a stored value")
        if name in _SIMPLE:
            self.next += 1
            return _SIMPLE[name]
        if name in _DECIMAL:
            self.next += 1
            return self.decimal()
        if name in ("varchar", "char", "character"):
            self.next += 1
            self.expect("(")
            self.number()
            self.expect(")")
            return pa.string()
        if name not in _NESTED:
            found = f"there is no type {self.peek()!r}" if name[:1].isalpha() else f"a type expected, found {name!r}"
            raise self.error(found if name else "a type expected, found the end", _INSTEAD.get(name, _HINT))
        self.next += 1
        self.expect("<")
        if name == "array":
            kind = pa.list_(pa.field("element", self.type(depth + 1)))
        elif name == "map":
            key = self.type(depth + 1)
            if pa.types.is_nested(key):
                raise self.error("the key of a map must be a simple type")
            self.expect(",")
            kind = pa.map_(key, self.type(depth + 1))
        else:
            kind = pa.struct(self.fields(depth + 1))
        self.expect(">")
        return kind

    def decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.take()
            precision = self.number()
            if self.peek() == ",":
                self.take()
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise self.error("a decimal has 1 to 38 digits, and at most that many after the point")
        return pa.decimal128(precision, scale)

    def fields(self, depth: int) -> list[pa.Field]:
        fields: list[pa.Field] = []
        seen: set[str] = set()
        while True:
            raw = self.take()
            name = raw[1:-1].replace("``", "`") if raw.startswith("`") else raw
            if not raw or raw[0] in "<>(),:'\"0123456789":
                self.next -= 1
                raise self.error(f"the name of a field expected, found {raw or 'the end'!r}")
            if name.lower() in seen:
                self.next -= 1
                raise self.error(f"the field {name!r} appears twice")
            seen.add(name.lower())
            if self.peek() == ":":
                self.take()
            kind = self.type(depth)
            nullable = True
            if self.peek().lower() == "not":
                self.take()
                if self.peek().lower() != "null":
                    raise self.error("NOT NULL expected")
                self.take()
                nullable = False
            if self.peek().lower() == "comment":
                self.next += 2
            fields.append(pa.field(name, kind, nullable=nullable))
            if self.peek() != ",":
                return fields
            self.take()


@lru_cache(maxsize=4096)
def declared_type(ddl: str) -> pa.DataType:
    """Parse a type such as ``array<struct<a:int>>``; raises TypeMismatch with the position of the error."""
    tokens: list[Token] = []
    parser = TypeParser(tokens, 0, len(ddl))
    try:
        at = 0
        while at < len(ddl.rstrip()):
            match = _TOKEN.match(ddl, at)
            if match is None:
                parser.next, parser.end = len(tokens), at
                raise parser.error(f"unexpected {ddl[at:].lstrip()[:10]!r}")
            tokens.append(Token(match[match.lastindex or 0], match.start(match.lastindex or 0)))
            at = match.end()
        kind = parser.type()
        if parser.peek():
            raise parser.error(f"unexpected {parser.peek()!r} after the type")
    except TypeMismatch as error:
        raise TypeMismatch(f"type {ddl[:200]!r}: {error.message}", hint=error.hint, **error.fields) from None
    return kind


@lru_cache(maxsize=4096)
def arrow_type(ddl: str) -> pa.DataType:
    """The type of stored values; NOT NULL within structs is checked for each value."""
    return relaxed(declared_type(ddl))


def spark_type(ddl: str) -> str:
    """The type in canonical spelling, which Spark understands."""
    return type_name(declared_type(ddl))


def cast_type(ddl: str) -> str:
    """The type for a CAST: without NOT NULL, with which Spark fails if a struct is null."""
    return type_name(arrow_type(ddl))


def relaxed(kind: pa.DataType) -> pa.DataType:
    """The type without NOT NULL inside: with it, Parquet and Spark's toArrow fail on a null struct."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, relaxed(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, relaxed(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", relaxed(kind.value_type)))
    return kind


def type_name(kind: pa.DataType) -> str:
    """The Spark name of an Arrow type; an unsigned or large variant gets a type that has all its values."""
    found = _NAMES.get(kind)
    if found is not None:
        return found
    is_ = pa.types
    if is_.is_struct(kind):
        return f"struct<{','.join(_field_name(kind.field(i)) for i in range(kind.num_fields))}>"
    if is_.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind) or is_.is_list_view(kind):
        return f"array<{type_name(kind.value_type)}>"
    if is_.is_dictionary(kind):
        return type_name(kind.value_type)
    if is_.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if is_.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    widened = (
        (is_.is_large_string, "string"),
        (is_.is_string_view, "string"),
        (is_.is_large_binary, "binary"),
        (is_.is_binary_view, "binary"),
        (is_.is_fixed_size_binary, "binary"),
        (is_.is_date, "date"),
        (is_.is_float16, "float"),
        (is_.is_uint8, "smallint"),
        (is_.is_uint16, "int"),
        (is_.is_uint32, "bigint"),
        (is_.is_uint64, "decimal(20,0)"),
    )
    for matches, name in widened:
        if matches(kind):
            return name
    raise TypeMismatch(f"the Arrow type {kind} is not supported", hint=_HINT)


def quoted(name: str) -> str:
    """A quoted name for Spark's DDL."""
    return "`" + name.replace("`", "``") + "`"


def _field_name(field: pa.Field) -> str:
    name = field.name if _PLAIN.fullmatch(field.name) else quoted(field.name)
    return f"{name}:{type_name(field.type)}{'' if field.nullable else ' NOT NULL'}"


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, relaxed(column_type(c)), nullable=c.nullable) for c in columns])


def column_type(column: Column) -> pa.DataType:
    """The type of a column; an error names the column."""
    try:
        return declared_type(column.type)
    except TypeMismatch as error:
        message = f"column {column.name!r}: {error.message}"
        raise TypeMismatch(message, hint=error.hint, column=column.name, **error.fields) from error


def ddl(columns: Sequence[Column]) -> str:
    """For ``spark.read.schema``."""
    parts = (
        f"{quoted(c.name)} {type_name(relaxed(column_type(c)))}{'' if c.nullable else ' NOT NULL'}" for c in columns
    )
    return ", ".join(parts)


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    columns = []
    for field in schema:
        try:
            columns.append(Column(field.name, type_name(field.type), field.nullable))
        except TypeMismatch as error:
            message = f"column {field.name!r}: {error.message}"
            raise TypeMismatch(message, hint=error.hint, column=field.name) from error
    return tuple(columns)


def check_columns(columns: Sequence[Column], limits: Limits) -> None:
    """Check the columns of a dataset."""
    if not columns:
        raise UserError("a dataset needs at least one column")
    if len(columns) > limits.columns:
        raise LimitExceeded(f"{len(columns)} columns, at most {limits.columns} are allowed", limit=limits.columns)
    seen: set[str] = set()
    for column in columns:
        name = column.name
        _check_name(name, name, limits)
        if name.lower() in seen:
            raise UserError(
                f"the column {name!r} appears twice", hint="names compare without regard to case", column=name
            )
        seen.add(name.lower())
        if name.lower().startswith(RESERVED):
            hint = f"names that begin with {', '.join(RESERVED)} are reserved"
            raise UserError(f"a column cannot have the name {name!r}", hint=hint, column=name)
        _check_fields(column_type(column), name, limits)


def _check_name(name: str, column: str, limits: Limits) -> None:
    if not name.strip() or not name.isprintable():
        raise UserError(f"{name!r} cannot be the name of a column or field", column=column)
    if len(name) > limits.name_length:
        message = f"the name {name[:40]!r}… has {len(name)} characters, at most {limits.name_length} are allowed"
        raise LimitExceeded(message, limit=limits.name_length, column=column[: limits.name_length])


def _check_fields(kind: pa.DataType, column: str, limits: Limits) -> None:
    for i in range(kind.num_fields):
        field = kind.field(i)
        if pa.types.is_struct(kind):
            _check_name(field.name, column, limits)
        _check_fields(field.type, column, limits)


def coerce(value: Any, ddl: str) -> Any:
    """Check a JSON value against a type; return the canonical Python value, and None for None.

    It is strict: strings are not numbers, booleans and fractions are not integers, and NaN is not allowed.
    Coercing a canonical value returns it unchanged.
    """
    if value is None:
        return None
    try:
        return checker(declared_type(ddl))(value)
    except InvalidValue as invalid:
        raise TypeMismatch(f"{invalid} (for {spark_type(ddl)})", reason=invalid.code) from invalid


def values_to_arrow(values: Sequence[Any], ddl: str) -> pa.Array:
    """An Arrow array of coerced values."""
    return pa.array(values, arrow_type(ddl))
