"""Decodes JSON records into Arrow columns, all records at once: the common case of ingestion.

msgspec decodes the records into structs made for the dataset, and each column is built in one step. Anything unusual
raises NotColumnar, and the caller decodes record by record with strict_json and value_validators. So this decoder must
not accept a record that those refuse or read differently. msgspec is just as strict about JSON, text and numbers, but
accepts repeated fields. They are found by counting: text without repeated fields has one colon for each field, plus
those within names and strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any, Union

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from tocsin.cluster.records.strict_json import exact_json
from tocsin.cluster.records.type_ddl import relaxed
from tocsin.cluster.records.value_validators import checker
from tocsin.sql.scalars import InvalidValue

Values = Sequence[Any]
# Builds an Arrow array of canonical values and returns how many colons their JSON text has.
Build = Callable[[Values], tuple[pa.Array, int]]

_FEW = 16
# msgspec cannot match names with these.
_UNNAMEABLE = {'"', "\\", *map(chr, range(32))}
_YEAR_2 = "0002"
_YEAR_9999 = "9999"


class NotColumnar(Exception):
    """These records must be decoded one by one."""


class ColumnarReader:
    """Decodes records with these ``fields`` (and checks nulls) into tables of ``schema``.

    ``sparse``: fields may be missing; slower, because missing fields must be counted.
    ``generated``: the column of generated keys.
    """

    def __init__(
        self, schema: pa.Schema, fields: Sequence[pa.Field], *, sparse: bool, generated: str | None = None
    ) -> None:
        self.schema = schema
        self.generated = generated
        fields = [f.with_nullable(True) if f.name == generated else f for f in fields if sparse or f.name != generated]
        self._struct = _Struct(fields, sparse=sparse)
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._struct.model)
        self._many: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[self._struct.model])  # type: ignore[name-defined]

    def array(self, body: bytes, most: int, new_key: Callable[[], str]) -> pa.Table:
        rows = _decoded(self._many.decode, body)
        if len(rows) > most:
            raise NotColumnar
        return self._table(rows, body, new_key)

    def lines(self, body: bytes, most: int, new_key: Callable[[], str]) -> pa.Table:
        """``body`` must not begin or end with white space."""
        rows = _decoded(self._one.decode_lines, body)
        breaks = body.count(b"\n")
        # msgspec accepts line breaks within records and several records on one line; a body with only }\n{ has neither.
        if len(rows) > most or breaks != len(rows) - 1:
            raise NotColumnar
        clean = body.count(b"}\n{") + (body.count(b"}\r\n{") if b"\r" in body else 0)
        if clean != breaks:
            raise NotColumnar
        return self._table(rows, body, new_key)

    def each(self, texts: Sequence[bytes | Raw], new_key: Callable[[], str]) -> pa.Table:
        decode = self._one.decode
        rows = _decoded(lambda these: [decode(text) for text in these], texts)
        return self._table(rows, b"\n".join(texts), new_key)

    def _table(self, rows: list[Any], body: bytes, new_key: Callable[[], str]) -> pa.Table:
        if not rows:
            return self.schema.empty_table()
        try:
            arrays, colons = self._struct.columns(rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError, InvalidValue) as error:
            raise NotColumnar from error
        if colons != _count(body) or (b"\\" in body and (b"\\u003a" in body or b"\\u003A" in body)):
            raise NotColumnar
        if self.generated is not None:
            arrays = self._with_keys(arrays, len(rows), new_key)
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _with_keys(self, arrays: list[pa.Array], count: int, new_key: Callable[[], str]) -> list[pa.Array]:
        at = self.schema.get_field_index(self.generated)
        given = arrays.pop(at).to_pylist() if len(arrays) == len(self.schema) else [None] * count
        arrays.insert(at, pa.array([new_key() if key is None else key for key in given], pa.string()))
        return arrays


def reader(schema: pa.Schema, fields: Sequence[pa.Field], depth: int, **options: Any) -> ColumnarReader | None:
    """None if the schema has a type that needs the other decoder."""
    if 1 + max((_depth(f.type) for f in schema), default=0) > depth:
        return None
    try:
        return ColumnarReader(schema, fields, **options)
    except NotColumnar:
        return None


def _decoded(decode: Callable[[Any], Any], text: Any) -> Any:
    try:
        return decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotColumnar from error


def _count(text: bytes) -> int:
    if len(text) < 4096:
        return text.count(b":")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == 58))


def _depth(kind: pa.DataType) -> int:
    if pa.types.is_map(kind):
        return 1 + _depth(kind.item_type)
    return 1 + max(_depth(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 0


class _Struct:
    """A msgspec struct for some fields, and the builders of one array for each field."""

    def __init__(self, fields: Sequence[pa.Field], *, sparse: bool) -> None:
        self.fields = fields
        self.sparse = sparse
        self.required = [not f.nullable for f in fields]
        parts = [_part(f.type, sparse) for f in fields]
        self.builds = [build for _, build in parts]
        self.weights = [1 + f.name.count(":") for f in fields]
        members: list[Any] = []
        for i, (field, (model, _)) in enumerate(zip(fields, parts, strict=True)):
            hint: Any = model
            # Raw accepts any value and cannot be part of a union; its builder checks for null.
            if model is not Raw and not self.required[i]:
                hint = Union[hint, None]  # noqa: UP007
            if not sparse:
                members.append((f"f{i}", hint, msgspec.field(name=field.name)))
            elif model is Raw:
                members.append((f"f{i}", hint, msgspec.field(name=field.name, default=Raw())))
            else:
                members.append((f"f{i}", Union[hint, UnsetType], msgspec.field(name=field.name, default=UNSET)))  # noqa: UP007
        if any(set(f.name) & _UNNAMEABLE for f in fields):
            raise NotColumnar
        self.model = msgspec.defstruct("Record", members, forbid_unknown_fields=True, gc=False)

    def columns(self, rows: Sequence[Any]) -> tuple[list[pa.Array], int]:
        arrays = []
        colons = 0
        columns: list[Values] = list(zip(*map(astuple, rows), strict=True)) or [()] * len(self.fields)
        for values, build, weight, required in zip(columns, self.builds, self.weights, self.required, strict=True):
            present = len(values)
            if self.sparse:
                missing = sum(v is UNSET or (type(v) is Raw and not len(v)) for v in values)
                if missing:
                    values = [None if v is UNSET else v for v in values]
                    present -= missing
            array, within = build(values)
            if required and array.null_count:
                raise NotColumnar
            arrays.append(array)
            colons += within + weight * present
        return arrays, colons

    def build(self, kind: pa.DataType) -> Build:
        fields = list(relaxed(kind))

        def build(values: Values) -> tuple[pa.Array, int]:
            rows = [v for v in values if v is not None]
            arrays, colons = self.columns(rows)
            if len(rows) == len(values):
                return pa.StructArray.from_arrays(arrays, fields=fields), colons
            absent = np.fromiter((v is None for v in values), bool, len(values))
            places = np.where(absent, 0, np.cumsum(~absent) - 1)
            spread = pa.array(places, mask=absent)
            arrays = [array.take(spread) for array in arrays]
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(absent)), colons

        return build


def _part(kind: pa.DataType, sparse: bool) -> tuple[Any, Build]:
    """The msgspec type for a column type, and the builder of its column."""
    is_ = pa.types
    if is_.is_struct(kind):
        inner = _Struct(list(kind), sparse=sparse)
        return inner.model, inner.build(kind)
    if is_.is_map(kind):
        if kind.key_type != pa.string():
            raise NotColumnar
        model, build = _part(kind.item_type, sparse)
        if model is Raw:
            return Raw, _checked_raw(kind)
        return dict[str, Union[model, None]], _maps(kind, build)  # type: ignore[valid-type]  # noqa: UP007
    if is_.is_list(kind):
        model, build = _part(kind.value_type, sparse)
        if model is Raw:
            return Raw, _checked_raw(kind)
        return list[Union[model, None]], _lists(kind, build)  # type: ignore[valid-type]  # noqa: UP007
    if is_.is_signed_integer(kind):
        return int, _plain(kind)
    if is_.is_boolean(kind):
        return bool, _plain(kind)
    if kind == pa.float64():
        return float, _plain(kind)
    if kind == pa.float32():
        return float, _floats
    if is_.is_string(kind):
        return str, _texts
    if is_.is_timestamp(kind):
        return str, _timestamps(kind)
    if is_.is_date(kind):
        return str, _dates(kind)
    if is_.is_binary(kind):
        return str, _checked(kind)
    return Raw, _checked_raw(kind)


def _plain(kind: pa.DataType) -> Build:
    return lambda values: (pa.array(values, kind), 0)


def _floats(values: Values) -> tuple[pa.Array, int]:
    array = pa.array(values, pa.float32())
    if np.isinf(array.to_numpy(zero_copy_only=False)).any():
        raise NotColumnar
    return array, 0


def _texts(values: Values) -> tuple[pa.Array, int]:
    array = pa.array(values, pa.string())
    if len(values) <= _FEW:
        return array, sum(v.count(":") for v in values if v is not None)
    data = array.buffers()[2]
    return array, 0 if data is None else int(np.count_nonzero(np.frombuffer(data, np.uint8) == 58))


def _timestamps(kind: pa.DataType) -> Build:
    check = checker(kind)

    def build(values: Values) -> tuple[pa.Array, int]:
        texts, colons = _texts(values)
        given = [v for v in values if v is not None] if texts.null_count else values
        if not given:
            return pa.nulls(len(values), kind), 0
        if min(given) > _YEAR_2 and max(given) < _YEAR_9999:
            last = given[-1]
            zoned = kind.tz is not None and (last[-1:] == "Z" or "+" in last[10:] or "-" in last[10:])
            try:
                return texts.cast(kind if zoned else pa.timestamp("us")).cast(kind), colons
            except pa.ArrowInvalid:
                pass  # mixed formats or nanoseconds: converted one by one below
        return pa.array([None if v is None else check(v) for v in values], kind), colons

    return build


def _dates(kind: pa.DataType) -> Build:
    check = checker(kind)

    def build(values: Values) -> tuple[pa.Array, int]:
        if len(values) > _FEW:
            texts, colons = _texts(values)
            if min((v for v in values if v is not None), default="") > _YEAR_2:
                return texts.cast(kind), colons
        return pa.array([None if v is None else check(v) for v in values], kind), 0

    return build


def _checked(kind: pa.DataType) -> Build:
    """For types whose JSON text never has a colon."""
    check = checker(kind)
    return lambda values: (pa.array([None if v is None else check(v) for v in values], kind), 0)


def _checked_raw(kind: pa.DataType) -> Build:
    """Decode a column value by value: for decimals, which a float would round, and for types with decimals."""
    check, held = checker(kind), relaxed(kind)

    def build(values: Values) -> tuple[pa.Array, int]:
        out = []
        colons = 0
        for raw in values:
            text = bytes(raw)
            value = exact_json(text) if text else None
            out.append(None if value is None else check(value))
            colons += text.count(b":")
        return pa.array(out, held), colons

    return build


def _lists(kind: pa.DataType, build: Build) -> Build:
    held = relaxed(kind)

    def lists(values: Values) -> tuple[pa.Array, int]:
        array, colons = build(list(chain.from_iterable(v for v in values if v is not None)))
        return pa.ListArray.from_arrays(_offsets(values), array, type=held), colons

    return lists


def _maps(kind: pa.DataType, build: Build) -> Build:
    held = relaxed(kind)

    def maps(values: Values) -> tuple[pa.Array, int]:
        given = [v for v in values if v is not None]
        keys, in_keys = _texts(list(chain.from_iterable(given)))
        items, in_items = build(list(chain.from_iterable(v.values() for v in given)))
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=held), in_keys + in_items + len(keys)

    return maps


def _offsets(values: Values) -> pa.Array:
    """The offset of each list; a null offset makes a null list."""
    ends = list(accumulate((len(v) if v is not None else 0 for v in values), initial=0))
    absent = np.fromiter(chain((v is None for v in values), (False,)), bool, len(ends))
    return pa.array(np.array(ends, np.int32), mask=absent if absent.any() else None)
