from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from tocsin.cluster.records import formats
from tocsin.errors import QueryFailed

TIME = datetime.datetime(2026, 11, 16, 1, 2, 3, tzinfo=datetime.UTC)


def written(name: str, table: pa.Table) -> bytes:
    return b"".join(formats.WRITERS[name](table))


VALUES = [
    (pa.int64(), 2**62, 2**62),
    (pa.float64(), float("nan"), None),
    (pa.decimal128(20, 2), Decimal("123456789012345678.90"), 123456789012345678.90),
    (pa.string(), 'say "é"\n', 'say "é"\n'),
    (pa.bool_(), True, True),
    (pa.binary(), b"\x00\xff", "AP8="),
    (pa.date32(), datetime.date(2026, 11, 16), "2026-11-16"),
    (pa.timestamp("us", "UTC"), TIME, "2026-11-16T01:02:03Z"),
    (pa.duration("us"), datetime.timedelta(hours=1), "PT3600S"),
    (pa.list_(pa.struct([("a", pa.int32())])), [{"a": 1}, None], [{"a": 1}, None]),
    (pa.map_(pa.string(), pa.int32()), [("k", 1)], {"k": 1}),
    (pa.map_(pa.struct([("a", pa.int32())]), pa.int32()), [({"a": 1}, 2)], [[{"a": 1}, 2]]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), VALUES, ids=[str(kind) for kind, _, _ in VALUES])
def test_every_type_has_a_form_in_json(kind, value, expected):
    table = pa.table({"v": pa.array([value, None], kind)})
    assert json.loads(written("json", table)) == [{"v": expected}, {"v": None}]


@pytest.mark.parametrize(("kind", "value"), [value[:2] for value in VALUES], ids=[str(kind) for kind, _, _ in VALUES])
def test_every_type_has_a_form_in_csv(kind, value):
    lines = written("csv", pa.table({"v": pa.array([value], kind)})).decode()
    assert lines.startswith('"v"\n')
    assert len(lines) > 4


def test_csv_distinguishes_null_from_an_empty_text():
    assert written("csv", pa.table({"a": ["", None], "b": [1, 2]})) == b'"a","b"\n"",1\n,2\n'


def test_nested_values_are_json_in_csv():
    assert written("csv", pa.table({"a": [[1, 2]]})) == b'"a"\n"[1,2]"\n'


def test_a_time_beyond_pythons_range_is_written_as_text():
    table = pa.table({"t": pa.array([300_000_000_000_000_000], pa.timestamp("us"))})
    assert json.loads(written("json", table)) == [{"t": "11476-08-15 05:20:00.000000"}]


def test_a_nested_time_beyond_pythons_range_is_refused():
    far = pa.array([300_000_000_000_000_000], pa.timestamp("us"))
    table = pa.table({"t": pa.StructArray.from_arrays([far], ["t"])})
    with pytest.raises(QueryFailed):
        written("json", table)


def test_columns_of_the_same_name_are_renamed():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_2"])
    assert json.loads(written("ndjson", table)) == {"a": 1, "a_3": 2, "a_2": 3}


@pytest.mark.parametrize(("name", "empty"), [("json", b"[]"), ("ndjson", b""), ("csv", b'"a"\n')])
def test_a_table_without_rows_is_written(name, empty):
    assert written(name, pa.table({"a": pa.array([], pa.int32())})) == empty


def test_arrow_round_trips():
    table = pa.table({"a": range(200_000)})
    assert pa.ipc.open_stream(written("arrow", table)).read_all() == table


def test_chunks_of_a_table_are_joined():
    table = pa.concat_tables([pa.table({"a": [number]}) for number in range(3)])
    assert written("json", table) == b'[{"a":0},{"a":1},{"a":2}]'


def test_many_rows_are_written_in_pieces():
    table = pa.table({"a": range(12_000)})
    pieces = list(formats.json(table))
    assert len(pieces) > 2
    assert len(json.loads(b"".join(pieces))) == 12_000
