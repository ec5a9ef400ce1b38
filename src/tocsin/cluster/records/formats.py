"""Writes an Arrow table as JSON, NDJSON, CSV or an Arrow stream, in pieces."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv

from tocsin.errors import QueryFailed

ROWS = 5_000


def counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


#: Decimals are numbers with all their digits, as in Spark's to_json.
encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")


def distinct(table: pa.Table) -> pa.Table:
    """Rename repeated columns, because a JSON object has each name once: ``a, a`` becomes ``a, a_2``."""
    names: list[str] = []
    taken = set(table.column_names)
    for name in table.column_names:
        fresh, number = name, 2
        while fresh in names or (fresh != name and fresh in taken):
            fresh = f"{name}_{number}"
            number += 1
        names.append(fresh)
    return table if names == table.column_names else table.rename_columns(names)


def batches(table: pa.Table) -> list[pa.RecordBatch]:
    """Batches of some thousand rows, even if the table has many small pieces."""
    found: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=ROWS)
    return found


def objects(table: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows as objects, in lists of some thousand."""
    for batch in batches(distinct(table)):
        try:
            yield batch.to_pylist(maps_as_pydicts="lossy")
        except TypeError:
            yield batch.to_pylist()  # map keys that are not strings: pairs
        except (ValueError, OverflowError):
            yield texts(batch).to_pylist(maps_as_pydicts="lossy")


def texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times outside of Python's range as text."""
    columns = []
    for column in batch.columns:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_nested(column.type):
            raise QueryFailed(
                "a time in a nested value is outside of the range of JSON output", hint="use the format arrow"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def ndjson(table: pa.Table) -> Iterator[bytes]:
    for rows in objects(table):
        yield encoder.encode_lines(rows)


def json(table: pa.Table) -> Iterator[bytes]:
    opening = b"["
    for rows in objects(table):
        yield opening + encoder.encode(rows)[1:-1]
        opening = b",\n"
    yield b"[]" if opening == b"[" else b"]"


def csv(table: pa.Table) -> Iterator[bytes]:
    """Nested values as JSON, bytes in base64; null is empty, an empty string is ``""``."""
    header = True
    table = distinct(table)
    for batch in batches(table) or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
        flat = pa.Table.from_arrays([flatten(column) for column in batch.columns], names=batch.schema.names)
        sink = io.BytesIO()
        pyarrow.csv.write_csv(flat, sink, pyarrow.csv.WriteOptions(include_header=header))
        header = False
        yield sink.getvalue()


def flatten(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_nested(kind):
        batch = pa.RecordBatch.from_arrays([column], names=["value"])
        rows = next(objects(pa.Table.from_batches([batch])), [])
        values = [None if row["value"] is None else encoder.encode(row["value"]).decode() for row in rows]
        return pa.array(values, pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return pa.array(encoded, pa.string())
    if pa.types.is_decimal(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return column


def arrow(table: pa.Table) -> Iterator[bytes]:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=64 * 1024):
            writer.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


WRITERS: dict[str, Callable[[pa.Table], Iterator[bytes]]] = {"json": json, "ndjson": ndjson, "csv": csv, "arrow": arrow}
