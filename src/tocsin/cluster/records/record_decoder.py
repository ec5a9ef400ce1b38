"""Decodes a posted body into an Arrow table of the dataset, with a reason for each record that does not fit.

A body is one JSON object, an array of objects, or one object per line (NDJSON, also as application/json). Field names
match columns with the same spelling, or else without regard to case. A missing column is null, if it is nullable. An
object with a repeated field, at any depth, is refused, because one of the values would be lost.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct

from tocsin.cluster.model import Column, Refusal
from tocsin.cluster.records.columnar_decoder import ColumnarReader, NotColumnar, reader
from tocsin.cluster.records.strict_json import exact_json
from tocsin.cluster.records.type_ddl import arrow_schema, column_type
from tocsin.cluster.records.value_validators import ObjectFields
from tocsin.config import Limits
from tocsin.errors import BrokenEncoding, LimitExceeded, NotJson, TypeMismatch, UnsupportedEncoding
from tocsin.sql.scalars import InvalidValue, shown

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_LEAF = 8
_CHUNK = 64 * 1024
_GZIP_MEMBERS = 10_000
_BYTE = re.compile(r"\(byte (\d+)\)")
_RAWS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_ANY: msgspec.json.Decoder[Raw] = msgspec.json.Decoder(Raw)


#: The checked values of one record, in the order of the columns.
Row = tuple[Any, ...]


class Decoded(Struct):
    """The records that fit, in order: a single record as a row, several as columns."""

    columns: pa.Table
    rows: list[Row]
    refused: list[Refusal]
    total: int

    @property
    def accepted(self) -> int:
        return int(self.columns.num_rows) + len(self.rows)

    @property
    def table(self) -> pa.Table:
        """All records as columns."""
        return rows_to_table(self.rows, self.columns.schema) if self.rows else self.columns


def rows_to_table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    # One array of structs takes half the time of one array for each column.
    return pa.Table.from_struct_array(pa.array(rows, pa.struct(list(schema))))


def time_ordered_key() -> str:
    """32 hex digits of a version 7 UUID: later keys sort later, to the millisecond."""
    noise = int.from_bytes(os.urandom(10))
    noise = noise & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return f"{(time.time_ns() // 1_000_000) << 80 | noise:032x}"


def decompress(body: bytes, encoding: str, limits: Limits) -> bytes:
    """Decompress a body to at most ``limits.request_bytes``."""
    name = encoding.strip().lower()
    if len(body) > limits.request_bytes:
        raise _too_many_bytes(limits)
    if name in ("", "identity"):
        return body
    if name in ("gzip", "x-gzip"):
        bits = 31
    elif name == "deflate":
        # Some clients omit the zlib header, which the first byte shows.
        bits = 15 if len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2]) % 31 == 0 else -15
    else:
        raise UnsupportedEncoding(
            f"the encoding {encoding[:60]!r} is not supported", hint="use gzip, deflate or identity"
        )
    out: list[bytes] = []
    room = limits.request_bytes
    view = memoryview(body)
    at = members = 0
    while at < len(body) or not members:
        members += 1
        if members > _GZIP_MEMBERS or (members > 1 and bits != 31):
            raise BrokenEncoding(f"the body has more than one {name} stream")
        unpack = zlib.decompressobj(wbits=bits)
        while not unpack.eof:
            chunk = unpack.unconsumed_tail
            if not chunk:
                if at >= len(body):
                    raise BrokenEncoding(f"the {name} stream ends too early")
                chunk = bytes(view[at : at + _CHUNK])
                at += len(chunk)
            try:
                data = unpack.decompress(chunk, room + 1)
            except zlib.error as error:
                raise BrokenEncoding(f"the body is not a {name} stream: {error}") from error
            room -= len(data)
            if room < 0:
                raise _too_many_bytes(limits)
            out.append(data)
        at -= len(unpack.unused_data)
    return b"".join(out)


def _too_many_bytes(limits: Limits) -> LimitExceeded:
    message = f"the body is larger than {limits.request_bytes} bytes"
    return LimitExceeded(message, hint="send fewer records a request", limit=limits.request_bytes)


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [v for v in level if isinstance(v, (dict, list))]
        if not level:
            return False
        level = [item for v in level for item in (v.values() if isinstance(v, dict) else v)]
    return True


class RecordDecoder:
    """Decodes bodies for one dataset: all records at once if possible, otherwise one by one.

    In an ``autogenerated`` dataset a missing or null key is generated by ``new_key``.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        *,
        key: tuple[str, ...] = (),
        autogenerated: bool = False,
        limits: Limits,
        new_key: Callable[[], str] = time_ordered_key,
    ) -> None:
        keys = {name.lower() for name in key}
        required = {c.name for c in columns if c.name.lower() in keys}
        self.schema = arrow_schema(columns)
        self._nothing = self.schema.empty_table()
        self._limits = limits
        self._new_key = new_key
        self._generated = next((c.name for c in columns if autogenerated and c.name.lower() in keys), None)
        if self._generated and self.schema.field(self._generated).type != pa.string():
            raise TypeMismatch(f"the autogenerated key {self._generated!r} must be a string", column=self._generated)
        fields = [pa.field(c.name, column_type(c), nullable=c.nullable and c.name not in required) for c in columns]
        optional = [f.with_nullable(True) if f.name == self._generated else f for f in fields]
        self._fields = {extra: ObjectFields(optional, extra) for extra in (False, True)}
        self._digits = any("decimal" in str(f.type) for f in self.schema)
        options: dict[str, Any] = {"depth": limits.json_depth, "generated": self._generated}
        made = (reader(self.schema, fields, sparse=sparse, **options) for sparse in (False, True))
        self._readers: list[ColumnarReader] = [r for r in made if r is not None]

    def decode(
        self,
        body: bytes,
        *,
        content_type: str = "application/json",
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> Decoded:
        """Decode a body; records that do not fit are refused with a reason. A body that is not JSON raises NotJson."""
        limits = self._limits
        if len(body) > limits.request_bytes:
            raise _too_many_bytes(limits)
        text = body.removeprefix(_BOM).strip(_SPACE)
        lines = content_type.partition(";")[0].strip().lower() in NDJSON or _is_lines(text)
        # A single record is decoded faster by itself.
        several = b"\n" in text if lines else text[:1] == b"["
        if several and len(text) <= limits.record_bytes:
            table = self._quick(text, lines)
            if table is not None:
                return Decoded(table, [], [], table.num_rows)
        texts: Sequence[bytes | Raw] = _split_lines(text) if lines else _split(text)
        if len(texts) > limits.records:
            message = f"{len(texts)} records, at most {limits.records} are allowed in one request"
            raise LimitExceeded(message, hint="split them over several requests", limit=limits.records)
        refused: list[Refusal] = []
        if len(texts) == 1:
            # Columns of one row are expensive; the committer makes columns for the rows of many requests at once.
            return Decoded(self._nothing, self._rows(texts, 0, unknown == "ignore", refused), refused, 1)
        tables = list(self._chunk(texts, 0, unknown == "ignore", refused))
        joined = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        return Decoded(joined, [], refused, len(texts))

    def _quick(self, text: bytes, lines: bool) -> pa.Table | None:
        most = self._limits.records
        for i, way in enumerate(self._readers):
            try:
                table = (way.lines if lines else way.array)(text, most, self._new_key)
            except NotColumnar:
                continue
            if i:
                self._readers = self._readers[::-1]  # the next body is probably like this one
            return table
        return None

    def _chunk(self, texts: Sequence[bytes | Raw], first: int, extra: bool, refused: list[Refusal]) -> Any:
        """Divide the records into halves, until only a few records around a bad one are decoded one by one."""
        if len(texts) <= _LEAF:
            rows = self._rows(texts, first, extra, refused)
            yield rows_to_table(rows, self.schema) if rows else self._nothing
            return
        if max(map(len, texts)) <= self._limits.record_bytes:
            for way in self._readers:
                try:
                    yield way.each(texts, self._new_key)
                    return
                except NotColumnar:
                    continue
        middle = len(texts) // 2
        yield from self._chunk(texts[:middle], first, extra, refused)
        yield from self._chunk(texts[middle:], first + middle, extra, refused)

    def _rows(self, texts: Sequence[bytes | Raw], first: int, extra: bool, refused: list[Refusal]) -> list[Row]:
        rows = []
        for index, text in enumerate(texts, first):
            try:
                rows.append(tuple(self._record(bytes(text), extra)))
            except InvalidValue as invalid:
                refused.append(Refusal(index, invalid.code, str(invalid)))
        return rows

    def _record(self, text: bytes, extra: bool) -> list[Any]:
        """Decode one record: the reference that the columnar decoder must agree with."""
        limits = self._limits
        if len(text) > limits.record_bytes:
            raise InvalidValue("too_large", f"{len(text)} bytes, at most {limits.record_bytes} are allowed")
        value = exact_json(text, self._digits)
        if not isinstance(value, dict):
            raise InvalidValue("not_an_object", f"an object expected, got {shown(value)}")
        if text.count(b"{") + text.count(b"[") > limits.json_depth and _deeper_than(value, limits.json_depth):
            raise InvalidValue("too_deep", f"nested deeper than {limits.json_depth}")
        row = self._fields[extra].values(value)
        if self._generated is not None:
            at = self.schema.get_field_index(self._generated)
            row[at] = self._new_key() if row[at] is None else row[at]
        return row


def _is_lines(text: bytes) -> bool:
    """Whether the first line of an application/json body is an object and more lines follow."""
    end = text.find(b"\n")
    if end < 0 or text[:1] != b"{":
        return False
    first = text[:end].rstrip(_SPACE)
    if first[-1:] != b"}":
        return False
    try:
        _ANY.decode(first)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _split_lines(text: bytes) -> list[bytes]:
    stripped = (line.strip(_SPACE) for line in text.split(b"\n"))
    return [line for line in stripped if line]


def _split(text: bytes) -> Sequence[bytes | Raw]:
    if not text:
        raise NotJson("the body is empty", hint="send a JSON object, an array of objects or NDJSON", position=0)
    try:
        return _RAWS.decode(text) if text[:1] == b"[" else [_ANY.decode(text)]
    except RecursionError:
        raise LimitExceeded("the body is nested too deeply") from None
    except msgspec.MsgspecError as error:
        found = _BYTE.search(str(error))
        at = int(found[1]) if found else len(text)
        reason = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ").strip()
        message = f"the body is not JSON: {reason} at byte {at}"
        raise NotJson(message, hint="send one record per line as application/x-ndjson", position=at) from None
