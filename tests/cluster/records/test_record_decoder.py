from __future__ import annotations

import datetime as dt
import gzip
import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.cluster.model import Column
from tocsin.cluster.records.record_decoder import Decoded, RecordDecoder, decompress, time_ordered_key
from tocsin.config import Limits
from tocsin.errors import BrokenEncoding, LimitExceeded, NotJson, TypeMismatch, UnsupportedEncoding

LIMITS = Limits(request_bytes=100_000, records=100, record_bytes=2_000, json_depth=5)
NDJSON = "application/x-ndjson"
REPORT = (
    Column("id", "string"),
    Column("kind", "string", nullable=False),
    Column("lat", "double"),
    Column("severity", "int"),
    Column("time", "timestamp"),
)
GOOD = {"id": "a", "kind": "fire", "lat": 1.5, "severity": 3, "time": "2026-11-16T00:00:00Z"}


def numbered() -> Callable[[], str]:
    numbers = count()
    return lambda: f"key{next(numbers)}"


def decoder(columns: tuple[Column, ...] = REPORT, key: tuple[str, ...] = ("id",), **options: Any) -> RecordDecoder:
    return RecordDecoder(columns, key=key, limits=options.pop("limits", LIMITS), new_key=numbered(), **options)


def exact(columns: tuple[Column, ...] = REPORT, key: tuple[str, ...] = ("id",), **options: Any) -> RecordDecoder:
    """A decoder that never takes the fast path: the reference."""
    made = decoder(columns, key, **options)
    made._readers = []
    return made


def codes(decoded: Decoded) -> list[tuple[int, str]]:
    assert decoded.table.num_rows + len(decoded.refused) == decoded.total
    return [(r.index, r.code) for r in decoded.refused]


def with_field(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def raw_field(name: str, text: str) -> bytes:
    """A good record with one field as literal JSON text."""
    record = {k: v for k, v in GOOD.items() if k != name}
    return json.dumps(record)[:-1].encode() + f', "{name}": '.encode() + text.encode("utf-8", "surrogatepass") + b"}"


@pytest.mark.parametrize(
    ("body", "content_type", "rows"),
    [
        (json.dumps(GOOD), "application/json", 1),
        (json.dumps(GOOD, indent=2), "application/json", 1),
        ("\ufeff" + json.dumps(GOOD), "application/json", 1),
        ("[]", "application/json", 0),
        (json.dumps([GOOD]), "application/json", 1),
        (json.dumps([GOOD] * 3, indent=1), "application/json; charset=utf-8", 3),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), "application/json", 2),
        (json.dumps(GOOD) + "\r\n" + json.dumps(GOOD) + "\r\n", "Application/NDJSON", 2),
        ("\n\n" + json.dumps(GOOD) + "\n  \n\n" + json.dumps(GOOD) + "\n\n", NDJSON, 2),
        ("", NDJSON, 0),
        ("\n \n", "application/jsonl", 0),
    ],
)
@pytest.mark.parametrize("make", [decoder, exact])
def test_every_shape_of_body_is_accepted(body: str, content_type: str, rows: int, make: Any) -> None:
    decoded = make().decode(body.encode(), content_type=content_type)
    assert decoded.refused == []
    assert decoded.total == rows
    expected = {**GOOD, "time": dt.datetime(2026, 11, 16, tzinfo=dt.UTC)}
    assert decoded.table.to_pylist() == [expected] * rows
    assert decoded.table.schema == make().schema


@pytest.mark.parametrize(
    ("body", "position"),
    [
        (b"", 0),
        (b"  \n", 0),
        (b"{", 1),
        (b"hello", 0),
        (b'{"id": NaN}', 7),
        (b'{"id": 1}x', 10),
        (b'{"id": 1}{"id": 2}', None),
        (b'[{"id": 1}', None),
        (b'[{"id": 1},]', None),
        (b'[{"id": 1} {"id": 2}]', None),
        (b"[{'id': 1}]", None),
        (b'{"id": 01}', None),
        (b'{"id": "a\nb"}', None),
        (b"\x00\x01", None),
        ('{"id": 1}'.encode("utf-16"), None),
        (b"id=1&kind=fire", None),
    ],
)
@pytest.mark.parametrize("make", [decoder, exact])
def test_a_body_that_is_not_json_is_refused_with_its_position(body: bytes, position: int | None, make: Any) -> None:
    with pytest.raises(NotJson) as caught:
        make().decode(body)
    assert caught.value.code == "not_json"
    assert caught.value.fields["position"] == position or position is None


BAD_RECORDS = [
    (b"[1]", "not_an_object"),
    (b"5", "not_an_object"),
    (b"null", "not_an_object"),
    (b'"text"', "not_an_object"),
    (b"{}", "missing"),
    (b'{"id": "a"}', "missing"),
    (b'{"kind": "fire"}', "missing"),
    (raw_field("kind", "null"), "null"),
    (raw_field("id", "null"), "null"),
    (raw_field("id", "5"), "wrong_type"),
    (raw_field("id", '["a"]'), "wrong_type"),
    (raw_field("lat", '"1.5"'), "wrong_type"),
    (raw_field("lat", "true"), "wrong_type"),
    (raw_field("lat", "1e400"), "out_of_range"),
    (raw_field("lat", "9" * 400), "out_of_range"),
    (raw_field("severity", "3.0"), "wrong_type"),
    (raw_field("severity", "1e1"), "wrong_type"),
    (raw_field("severity", '"3"'), "wrong_type"),
    (raw_field("severity", "false"), "wrong_type"),
    (raw_field("severity", "2147483648"), "out_of_range"),
    (raw_field("severity", "-" + "9" * 1500), "out_of_range"),
    (raw_field("time", "1700000000"), "wrong_type"),
    (raw_field("time", '"now"'), "wrong_type"),
    (raw_field("time", '"2026-02-30T00:00:00Z"'), "out_of_range"),
    (raw_field("time", '"0000-01-01T00:00:00Z"'), "out_of_range"),
    (raw_field("time", '"9999-12-31T23:59:59-01:00"'), "out_of_range"),
    (raw_field("id", '"\\ud800x"'), "not_utf8"),
    (raw_field("id", '"\ud800"'), "not_utf8"),
    (raw_field("id", '"a", "id": "b"'), "duplicate_field"),
    (raw_field("id", '"a", "ID": "b"'), "duplicate_field"),
    (raw_field("id", '"a", "\\u0069d": "b"'), "duplicate_field"),
    (raw_field("id", '":", "id": "\\u003a"'), "duplicate_field"),
    (raw_field("extra", "1"), "unknown_field"),
    (raw_field("extra", "[" * 5 + "]" * 5), "too_deep"),
    (raw_field("id", json.dumps("x" * 2000)), "too_large"),
]
BROKEN_LINES = [
    (b"{", "not_json"),
    (b"{}{}", "not_json"),
    (b'{"id": NaN}', "not_json"),
    (b'{"id": Infinity}', "not_json"),
    (b'{"id": 01}', "not_json"),
    (b'{"id": "a",}', "not_json"),
    (b"{'id': 1}", "not_json"),
    (b'{"id": "\xff"}', "not_utf8"),
    (b'{"id": "\x01"}', "not_json"),
    (b'{"id": "\\x"}', "not_json"),
    (json.dumps(GOOD).encode() + b"\r" + json.dumps(GOOD).encode(), "not_json"),
    (json.dumps(GOOD).encode() + b"," + json.dumps(GOOD).encode(), "not_json"),
    (b'{"id": ' + b"[" * 900 + b"]" * 900 + b"}", "too_deep"),
    (b"\x0c", "not_json"),
]
BOTH = BAD_RECORDS + BROKEN_LINES


@pytest.mark.parametrize(("bad", "code"), BOTH, ids=[f"{i}-{row[1]}" for i, row in enumerate(BOTH)])
@pytest.mark.parametrize("make", [decoder, exact])
def test_a_bad_line_refuses_only_its_record(bad: bytes, code: str, make: Any) -> None:
    good = json.dumps(GOOD).encode()
    decoded = make().decode(b"\n".join([good, b"", bad, good]), content_type=NDJSON)
    assert codes(decoded) == [(1, code)]
    assert decoded.table.num_rows == 2
    assert len(decoded.refused[0].reason) < 400


@pytest.mark.parametrize(("bad", "code"), BAD_RECORDS, ids=[f"{i}-{row[1]}" for i, row in enumerate(BAD_RECORDS)])
@pytest.mark.parametrize("make", [decoder, exact])
def test_a_bad_record_of_an_array_refuses_only_itself(bad: bytes, code: str, make: Any) -> None:
    good = json.dumps(GOOD).encode()
    if code == "not_utf8" and b"\\ud800" in bad:
        with pytest.raises(NotJson):  # half a surrogate pair: what follows it cannot be decoded reliably
            make().decode(b"[" + b",".join([good, bad, good]) + b"]")
        return
    decoded = make().decode(b"[" + b",".join([good, bad, good]) + b"]")
    assert codes(decoded) == [(1, code)]


def test_one_bad_record_among_many_is_found_and_the_order_is_kept() -> None:
    rows = [with_field(id=str(i), severity="x" if i in (17, 60) else i) for i in range(100)]
    decoded = decoder().decode(json.dumps(rows).encode())
    assert codes(decoded) == [(17, "wrong_type"), (60, "wrong_type")]
    assert decoded.table["id"].to_pylist() == [str(i) for i in range(100) if i not in (17, 60)]
    assert decoded.table["id"].num_chunks == 1


def test_valid_records_never_take_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a valid record took the exact path")

    monkeypatch.setattr(RecordDecoder, "_record", fail)
    under_test = decoder()
    sparse = {k: v for k, v in GOOD.items() if k != "severity"}
    texts = [with_field(kind="a: b: c\\\n\u00e9😀"), with_field(lat=None, severity=None), sparse]
    for rows in ([GOOD], [GOOD] * 20, texts, [sparse] * 20, [with_field(time="2026-11-16T00:00:00.123456789")] * 2):
        assert under_test.decode(json.dumps(rows).encode()).total == len(rows)
        lines = "\n".join(json.dumps(row) for row in rows * 2).encode()
        assert under_test.decode(lines, content_type=NDJSON).total == len(rows) * 2
    long = "\n".join(json.dumps(GOOD) for _ in range(80)).encode()
    assert len(long) > LIMITS.record_bytes
    assert under_test.decode(long).total == 80


def test_unknown_fields_can_be_ignored_at_every_level() -> None:
    columns = (Column("at", "struct<x:int>"), Column("all", "array<struct<y:int>>"))
    body = b'{"at": {"x": 1, "z": [2]}, "all": [{"y": 1, "w": {}}], "more": null}'
    assert codes(decoder(columns, ()).decode(body)) == [(0, "unknown_field")]
    decoded = decoder(columns, ()).decode(body, unknown="ignore")
    assert decoded.table.to_pylist() == [{"at": {"x": 1}, "all": [{"y": 1}]}]


def test_an_ignored_field_must_not_occur_twice() -> None:
    body = b'{"x": 1, "more": 1, "more": 2}'
    assert codes(decoder((Column("x", "int"),), ()).decode(body, unknown="ignore")) == [(0, "duplicate_field")]


def test_field_names_match_in_any_case() -> None:
    decoded = decoder().decode(json.dumps({k.upper(): v for k, v in GOOD.items()}).encode())
    assert decoded.refused == []
    assert decoded.table["kind"].to_pylist() == ["fire"]


def test_the_reason_names_the_field() -> None:
    decoded = decoder().decode(json.dumps(with_field(severity="high")).encode())
    assert decoded.refused[0].reason == "severity: an integer expected, got the text 'high'"


@pytest.mark.parametrize("make", [decoder, exact])
def test_missing_and_null_keys_are_generated_in_order(make: Any) -> None:
    columns = (Column("id", "string", nullable=False), Column("x", "int"))
    made = make(columns, autogenerated=True)
    rows = [{"x": 1}, {"x": 2, "id": "mine"}, {"x": 3, "id": None}, {"x": "bad"}, {"x": 4}]
    decoded = made.decode(json.dumps(rows).encode())
    assert decoded.table["id"].to_pylist() == ["key0", "mine", "key1", "key2"]
    assert made.decode(b'[{"x": 1}, {"x": 2}]').table["id"].to_pylist() == ["key3", "key4"]


def test_an_autogenerated_key_must_be_a_string() -> None:
    with pytest.raises(TypeMismatch, match="'id'"):
        decoder((Column("id", "int"),), autogenerated=True)


def test_generated_keys_are_different_and_look_like_uuid_7() -> None:
    keys = [time_ordered_key() for _ in range(1000)]
    assert len(set(keys)) == 1000
    assert {(len(k), k[12], k[16] in "89ab") for k in keys} == {(32, "7", True)}


def test_limits_of_the_whole_body_hold() -> None:
    with pytest.raises(LimitExceeded, match="101 records"):
        decoder().decode(b"[" + b",".join([b"{}"] * 101) + b"]")
    with pytest.raises(LimitExceeded, match="larger"):
        decoder().decode(b" " * 100_001)
    with pytest.raises(LimitExceeded, match="deep"):
        decoder().decode(b"[" * 5000 + b"]" * 5000)
    good = json.dumps({"x": 1}).encode()
    with pytest.raises(LimitExceeded):
        decoder((Column("x", "int"),), ()).decode(b"\n".join([good] * 101))


@pytest.mark.parametrize("make", [decoder, exact])
def test_depth_is_counted_from_the_record(make: Any) -> None:
    columns = (Column("x", "array<array<array<array<int>>>>"), Column("y", "array<array<array<array<array<int>>>>>"))
    assert codes(make(columns, ()).decode(b'{"x": [[[[1]]]]}')) == []
    assert codes(make(columns, ()).decode(b'{"y": [[[[[1]]]]]}')) == [(0, "too_deep")]


def test_nested_values_and_every_type_are_read(tmp_path: Any) -> None:
    columns = (
        Column("at", "struct<lat:double NOT NULL,names:array<string>>"),
        Column("by", "map<string,struct<n:bigint>>"),
        Column("price", "decimal(30,10)"),
        Column("data", "binary"),
        Column("day", "date"),
        Column("local", "timestamp_ntz"),
        Column("small", "float"),
        Column("ok", "boolean"),
    )
    body = b"""[{"at": {"lat": 1, "names": ["a:b", null]}, "by": {"x:y": {"n": 9007199254740993}, "z": null},
                 "price": 12345678901234567890.0123456789, "data": "AAE=", "day": "2026-11-16",
                 "local": "2026-11-16T01:02:03", "small": 0.5, "ok": true},
                {"at": null, "by": null, "price": null, "data": null, "day": null, "local": null, "small": null,
                 "ok": null},
                {"at": {"lat": 2}}, {}]"""
    decoded = decoder(columns, ()).decode(body)
    assert decoded.refused == []
    nothing = dict.fromkeys(c.name for c in columns)
    assert decoded.table.to_pylist(maps_as_pydicts="strict") == [
        {
            "at": {"lat": 1.0, "names": ["a:b", None]},
            "by": {"x:y": {"n": 9007199254740993}, "z": None},
            "price": Decimal("12345678901234567890.0123456789"),
            "data": b"\x00\x01",
            "day": dt.date(2026, 11, 16),
            "local": dt.datetime(2026, 11, 16, 1, 2, 3),
            "small": 0.5,
            "ok": True,
        },
        nothing,
        {**nothing, "at": {"lat": 2.0, "names": None}},
        nothing,
    ]
    decoded.table.validate(full=True)
    pq.write_table(decoded.table, tmp_path / "segment.parquet")
    assert pq.read_table(tmp_path / "segment.parquet") == decoded.table


@pytest.mark.parametrize(
    "pack", [gzip.compress, zlib.compress, lambda data: zlib.compress(data, wbits=-15)], ids=["gzip", "zlib", "raw"]
)
def test_compressed_bodies_are_unpacked(pack: Callable[[bytes], bytes]) -> None:
    name = " GZIP " if pack is gzip.compress else "deflate"
    for data in (b"", b"{}", b"[" + b"1," * 40_000 + b"1]"):
        assert decompress(pack(data), name, LIMITS) == data


def test_gzip_members_are_joined_and_identity_is_left_alone() -> None:
    many = b"".join(gzip.compress(b"%d\n" % i) for i in range(500))
    assert decompress(many, "x-gzip", LIMITS) == b"".join(b"%d\n" % i for i in range(500))
    assert decompress(b"{}", "identity", LIMITS) == decompress(b"{}", "", LIMITS) == b"{}"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "gzip;q=1"])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedEncoding) as caught:
        decompress(b"", encoding, LIMITS)
    assert (caught.value.code, caught.value.status) == ("unsupported_encoding", 415)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"", "gzip"),
        (b"", "deflate"),
        (b"{}", "gzip"),
        (b"{}", "deflate"),
        (gzip.compress(b"x" * 1000)[:-3], "gzip"),
        (gzip.compress(b"x" * 1000)[:-8] + b"\0" * 8, "gzip"),
        (gzip.compress(b"x") + b"garbage", "gzip"),
        (zlib.compress(b"x") + b"garbage", "deflate"),
        (zlib.compress(b"x" * 1000)[:-1], "deflate"),
    ],
)
def test_a_broken_stream_is_refused(body: bytes, encoding: str) -> None:
    with pytest.raises(BrokenEncoding):
        decompress(body, encoding, LIMITS)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
def test_a_body_that_decompresses_to_too_much_is_refused(encoding: str) -> None:
    data = b"\0" * (LIMITS.request_bytes + 1)
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding](data)
    with pytest.raises(LimitExceeded):
        decompress(packed, encoding, LIMITS)
    with pytest.raises(LimitExceeded):
        decompress(packed * 2, encoding, Limits(request_bytes=len(packed) * 2 - 1))


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]":,ab1 \n\\u', max_size=40).map(str.encode))
def test_any_bytes_are_decoded_or_a_clear_error(body: bytes) -> None:
    for content_type in ("application/json", NDJSON):
        try:
            decoded = decoder((Column("a", "int"), Column("b", "string")), ()).decode(body, content_type=content_type)
        except NotJson as error:
            assert 0 <= error.fields["position"] <= len(body)
        else:
            assert isinstance(decoded.table, pa.Table)
