from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.model import Column
from tocsin.cluster.records.type_ddl import (
    arrow_schema,
    arrow_type,
    cast_type,
    check_columns,
    coerce,
    columns_of,
    ddl,
    spark_type,
    values_to_arrow,
)
from tocsin.cluster.records.value_validators import json_value
from tocsin.config import Limits
from tocsin.errors import LimitExceeded, TypeMismatch, UserError

SPELLINGS = [
    ("BOOLEAN", "boolean", pa.bool_()),
    ("byte", "tinyint", pa.int8()),
    ("Short", "smallint", pa.int16()),
    ("integer", "int", pa.int32()),
    ("LONG", "bigint", pa.int64()),
    ("real", "float", pa.float32()),
    ("double", "double", pa.float64()),
    ("decimal", "decimal(10,0)", pa.decimal128(10, 0)),
    ("numeric( 5 )", "decimal(5,0)", pa.decimal128(5, 0)),
    ("dec(38, 18)", "decimal(38,18)", pa.decimal128(38, 18)),
    ("varchar(10)", "string", pa.string()),
    ("char(3)", "string", pa.string()),
    ("binary", "binary", pa.binary()),
    ("date", "date", pa.date32()),
    ("timestamp", "timestamp", pa.timestamp("us", "UTC")),
    ("timestamp_ltz", "timestamp", pa.timestamp("us", "UTC")),
    ("timestamp_ntz", "timestamp_ntz", pa.timestamp("us")),
    ("ARRAY<ARRAY<Int>>", "array<array<int>>", pa.list_(pa.list_(pa.int32()))),
    ("map<string, array<double>>", "map<string,array<double>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
    (
        "struct<A: int NOT NULL COMMENT 'x, y>', `b c` string>",
        "struct<A:int NOT NULL,`b c`:string>",
        pa.struct([pa.field("A", pa.int32()), pa.field("b c", pa.string())]),
    ),
    ("struct<`a``b`:int>", "struct<`a``b`:int>", pa.struct([pa.field("a`b", pa.int32())])),
    ("struct<date:date,array:array<int>>", "struct<date:date,array:array<int>>", None),
]


@pytest.mark.parametrize(("text", "normal", "kind"), SPELLINGS, ids=[s[0] for s in SPELLINGS])
def test_a_type_is_read_and_written_in_its_normal_spelling(text: str, normal: str, kind: pa.DataType | None) -> None:
    assert spark_type(text) == normal
    assert spark_type(normal) == normal
    if kind is not None:
        assert arrow_type(text).equals(kind)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "text",
        "int int",
        "int)",
        "int@",
        "int; DROP",
        "array",
        "array<",
        "array<int",
        "array<int,int>",
        "array<>",
        "map<int>",
        "map<array<int>,int>",
        "map<string,int,int>",
        "struct<>",
        "struct<a>",
        "struct<a:>",
        "struct<:int>",
        "struct<a int b int>",
        "struct<a int,>",
        "struct<a int, A string>",
        "struct<a int NOT>",
        "struct<a int NOT NIL>",
        "decimal(0)",
        "decimal(39)",
        "decimal(5,6)",
        "decimal(5,-1)",
        "decimal(,)",
        "decimal(99999999999999)",
        "varchar",
        "varchar()",
        "string(3)",
        "`int`",
        "'int'",
        "interval",
        "variant",
        "void",
        "array<interval>",
        "struct<a:void>",
        "1",
        "\x00",
    ],
)
def test_a_bad_type_is_refused(text: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        arrow_type(text)
    assert 0 <= caught.value.fields["position"] <= len(text)


def test_a_type_nested_too_deeply_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        arrow_type("array<" * 40 + "int" + ">" * 40)
    with pytest.raises(LimitExceeded):
        arrow_type("array<" * 100_000)


def test_the_error_of_a_schema_names_the_column() -> None:
    with pytest.raises(TypeMismatch, match="column 'when'") as caught:
        arrow_schema([Column("id", "int"), Column("when", "interval")])
    assert caught.value.fields["column"] == "when"


def test_a_schema_comes_back_as_the_columns_it_was_made_of() -> None:
    held = [normal for _, normal, _ in SPELLINGS if "NOT NULL" not in normal]
    columns = tuple(Column(f"c{i}", normal, i % 2 == 0) for i, normal in enumerate(held))
    assert columns_of(arrow_schema(columns)) == columns


def test_foreign_arrow_types_become_types_that_hold_their_values() -> None:
    schema = pa.schema(
        [
            ("a", pa.large_string()),
            ("b", pa.uint32()),
            ("c", pa.uint64()),
            ("d", pa.dictionary(pa.int32(), pa.string())),
            ("e", pa.large_list(pa.float16())),
            ("f", pa.timestamp("ns")),
            ("g", pa.timestamp("s", "Europe/Berlin")),
            ("h", pa.date64()),
            ("i", pa.binary(4)),
            ("j", pa.decimal256(20, 3)),
        ]
    )
    assert [c.type for c in columns_of(schema)] == [
        "string",
        "bigint",
        "decimal(20,0)",
        "string",
        "array<float>",
        "timestamp_ntz",
        "timestamp",
        "date",
        "binary",
        "decimal(20,3)",
    ]


def test_an_arrow_type_without_counterpart_is_refused_by_column() -> None:
    with pytest.raises(TypeMismatch, match="column 'x'"):
        columns_of(pa.schema([("x", pa.duration("us"))]))


def test_spark_agrees_on_names_and_arrow_types(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    columns = tuple(Column(f"c`{i}", text, i % 2 == 0) for i, (text, _, _) in enumerate(SPELLINGS))
    empty = arrow_schema(columns).empty_table()
    declared = StructType.fromDDL(ddl(columns))
    guessed = spark.createDataFrame(empty).schema
    # Without a schema Spark takes Arrow's zoneless timestamps for instants; hence always ddl(columns).
    differing = [f.dataType.simpleString() for f, g in zip(declared, guessed, strict=True) if f != g]
    assert differing == ["timestamp_ntz"]
    assert spark.createDataFrame(empty, schema=declared).toArrow().schema.types == empty.schema.types
    pq.write_table(empty, tmp_path / "segment.parquet")
    read = spark.read.schema(ddl(columns)).parquet(str(tmp_path))
    assert read.toArrow().schema.types == empty.schema.types


def test_spark_reads_values_as_they_were_coerced(spark: Any, tmp_path: Path) -> None:
    columns = tuple(Column(f"c{i}", kind) for i, (_, kind, _) in enumerate(GOOD))
    arrays = [values_to_arrow([coerce(value, kind), None], kind) for value, kind, _ in GOOD]
    table = pa.Table.from_arrays(arrays, schema=arrow_schema(columns))
    pq.write_table(table, tmp_path / "segment.parquet")
    for frame in (
        spark.read.schema(ddl(columns)).parquet(str(tmp_path)),
        spark.createDataFrame(table, schema=ddl(columns)),
        spark.sql("SELECT " + ", ".join(f"CAST(NULL AS {cast_type(c.type)}) {c.name}" for c in columns)),
    ):
        read = frame.toArrow()
        assert read.schema.types == table.schema.types
        assert read.num_rows == 1 or read.to_pylist() == table.to_pylist()


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([], UserError),
        ([Column("a", "int"), Column("A", "string")], UserError),
        ([Column("_ordinal", "int")], UserError),
        ([Column("_Is_New", "boolean")], UserError),
        ([Column("_deleted_at", "int")], UserError),
        ([Column("_cell7", "int")], UserError),
        ([Column("", "int")], UserError),
        ([Column("a\nb", "int")], UserError),
        ([Column("a" * 200, "int")], LimitExceeded),
        ([Column("a", f"struct<{'b' * 200}:int>")], LimitExceeded),
        ([Column("a", f"array<struct<{'b' * 200}:int>>")], LimitExceeded),
        ([Column(f"c{i}", "int") for i in range(1001)], LimitExceeded),
        ([Column("a", "variant")], TypeMismatch),
    ],
)
def test_invalid_columns_are_refused(columns: list[Column], error: type[UserError]) -> None:
    with pytest.raises(error):
        check_columns(columns, Limits())


def test_ordinary_columns_are_accepted() -> None:
    check_columns(
        [Column("id", "int"), Column("ordinal", "struct<a:int>"), Column("Straße 7", "map<string,int>")], Limits()
    )


GOOD = [
    (True, "boolean", True),
    (5, "int", 5),
    (-128, "tinyint", -128),
    (2**63 - 1, "bigint", 2**63 - 1),
    (5, "double", 5.0),
    (0.1, "float", 0.10000000149011612),
    ("x" * 500, "varchar(3)", "x" * 500),
    ("😀", "string", "😀"),
    ("YWI=", "binary", b"ab"),
    (1.25, "decimal(5,2)", Decimal("1.25")),
    ("1.5", "decimal(5,2)", Decimal("1.50")),
    ("-0", "decimal(5,2)", Decimal("0.00")),
    (7, "decimal(5,2)", Decimal("7.00")),
    ("9" * 38, "decimal(38,0)", Decimal("9" * 38)),
    ("2024-02-29", "date", dt.date(2024, 2, 29)),
    ("2024-02-29T01:02:03Z", "timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC)),
    ("2024-02-29T01:02:03", "timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC)),
    ("2024-02-29", "timestamp", dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    ("2024-02-29 01:02+0130", "timestamp", dt.datetime(2024, 2, 28, 23, 32, tzinfo=dt.UTC)),
    ("2024-02-29T01:02:03.123456789-01", "timestamp", dt.datetime(2024, 2, 29, 2, 2, 3, 123456, tzinfo=dt.UTC)),
    ("2024-02-29T01:02:03.1", "timestamp_ntz", dt.datetime(2024, 2, 29, 1, 2, 3, 100000)),
    ([1, None], "array<int>", [1, None]),
    ({"a": 1}, "map<string,int>", {"a": 1}),
    ({"-7": "x"}, "map<int,string>", {-7: "x"}),
    ({"true": 1}, "map<boolean,int>", {True: 1}),
    ({"2024-02-29": 1.5}, "map<date,double>", {dt.date(2024, 2, 29): 1.5}),
    ({"A": 1}, "struct<a:int,b:string>", {"a": 1, "b": None}),
    ([{"a": [{"b": 2}]}], "array<struct<a:array<struct<b:double>>>>", [{"a": [{"b": 2.0}]}]),
    (None, "int", None),
]
IDS = [f"{i}-{row[1]}" for i, row in enumerate(GOOD)]


@pytest.mark.parametrize(("value", "kind", "expected"), GOOD, ids=IDS)
def test_a_value_that_fits_becomes_its_canonical_value(value: Any, kind: str, expected: Any) -> None:
    found = coerce(value, kind)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(("value", "kind", "expected"), GOOD, ids=IDS)
def test_a_canonical_value_comes_back_unchanged_itself_and_through_json(value: Any, kind: str, expected: Any) -> None:
    assert coerce(expected, kind) == expected
    assert coerce(json_value(expected), kind) == expected


@pytest.mark.parametrize(("value", "kind", "expected"), GOOD, ids=IDS)
def test_canonical_values_become_an_arrow_column(value: Any, kind: str, expected: Any) -> None:
    column = values_to_arrow([coerce(value, kind), None], kind)
    column.validate(full=True)
    assert column.type == arrow_type(kind)
    assert column.null_count == 1 + (value is None)


BAD = [
    ("true", "boolean", "wrong_type"),
    (1, "boolean", "wrong_type"),
    ("5", "int", "wrong_type"),
    (True, "int", "wrong_type"),
    (5.0, "int", "wrong_type"),
    (128, "tinyint", "out_of_range"),
    (2**31, "int", "out_of_range"),
    (-(2**63) - 1, "bigint", "out_of_range"),
    (10**5000, "bigint", "out_of_range"),
    (True, "double", "wrong_type"),
    ("NaN", "double", "wrong_type"),
    (float("nan"), "double", "out_of_range"),
    (float("inf"), "double", "out_of_range"),
    (10**400, "double", "out_of_range"),
    (1e39, "float", "out_of_range"),
    (5, "string", "wrong_type"),
    (b"x", "string", "wrong_type"),
    ("\ud800", "string", "not_utf8"),
    ("YQ", "binary", "wrong_type"),
    ("Y Q==", "binary", "wrong_type"),
    ("é", "binary", "wrong_type"),
    (7, "binary", "wrong_type"),
    (1.234, "decimal(5,2)", "out_of_range"),
    (1000, "decimal(5,2)", "out_of_range"),
    ("1e999999", "decimal(5,2)", "out_of_range"),
    ("1e-999999", "decimal(5,2)", "out_of_range"),
    ("1" + "0" * 38, "decimal(38,0)", "out_of_range"),
    (10**5000, "decimal(38,0)", "out_of_range"),
    ("1_0", "decimal(5,2)", "wrong_type"),
    (" 1", "decimal(5,2)", "wrong_type"),
    ("NaN", "decimal(5,2)", "wrong_type"),
    ("٣", "decimal(5,2)", "wrong_type"),
    (float("nan"), "decimal(5,2)", "out_of_range"),
    (True, "decimal(5,2)", "wrong_type"),
    (20240229, "date", "wrong_type"),
    ("2023-02-29", "date", "out_of_range"),
    ("0000-01-01", "date", "out_of_range"),
    ("2024-2-9", "date", "wrong_type"),
    ("2024-02-29T00:00", "date", "wrong_type"),
    (1700000000, "timestamp", "wrong_type"),
    (1.5, "timestamp", "wrong_type"),
    ("yesterday", "timestamp", "wrong_type"),
    ("", "timestamp", "wrong_type"),
    ("2024-02-29T24:00:00Z", "timestamp", "out_of_range"),
    ("2024-02-29T23:59:60Z", "timestamp", "out_of_range"),
    ("2024-02-29T01:02:03.1234567890Z", "timestamp", "wrong_type"),
    ("2024-02-29T01:02:03+24:00", "timestamp", "out_of_range"),
    ("2024-02-29T01:02:03+01:60", "timestamp", "out_of_range"),
    ("2024-02-29T01:02:03 UTC", "timestamp", "wrong_type"),
    ("0001-01-01T00:00:00+01:00", "timestamp", "out_of_range"),
    ("9999-12-31T23:59:59-01:00", "timestamp", "out_of_range"),
    ("２０２４-02-29", "timestamp", "wrong_type"),
    ("2024-02-29T01:02:03Z", "timestamp_ntz", "wrong_type"),
    ("abc", "array<string>", "wrong_type"),
    ([1, "2"], "array<int>", "wrong_type"),
    ([1], "map<string,int>", "wrong_type"),
    ({"1.0": 1}, "map<int,int>", "wrong_type"),
    ({"1": 1, "1.0": 2}, "map<double,int>", "duplicate_field"),
    ([1], "struct<a:int>", "wrong_type"),
    ({"b": 1}, "struct<a:int>", "unknown_field"),
    ({"a": 1, "A": 2}, "struct<a:int>", "duplicate_field"),
    ({}, "struct<a:int NOT NULL>", "missing"),
    ({"a": None}, "struct<a:int NOT NULL>", "null"),
]


@pytest.mark.parametrize(("value", "kind", "reason"), BAD, ids=[f"{i}-{row[1]}" for i, row in enumerate(BAD)])
def test_a_value_that_does_not_fit_is_refused_with_a_reason(value: Any, kind: str, reason: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        coerce(value, kind)
    assert caught.value.fields["reason"] == reason
    assert len(caught.value.message) < 400


def test_the_reason_says_where_in_a_nested_value() -> None:
    with pytest.raises(TypeMismatch, match=r"at\.points\[1\]\.lat: a number expected, got the text 'x'"):
        coerce({"at": {"points": [{"lat": 1}, {"lat": "x"}]}}, "struct<at:struct<points:array<struct<lat:double>>>>")


@given(st.text(alphabet="abint<>,:`' ()1\\array structmpdecl", max_size=30))
def test_any_text_is_a_type_or_a_clear_error(text: str) -> None:
    try:
        assert spark_type(spark_type(text)) == spark_type(text)
    except UserError as error:
        assert error.hint or error.code == "limit_exceeded"


@given(st.sampled_from(sorted({kind for _, kind, _ in GOOD})), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
))  # fmt: skip
def test_any_value_is_coerced_or_a_clear_error(kind: str, value: Any) -> None:
    try:
        found = coerce(value, kind)
    except TypeMismatch as error:
        assert error.fields["reason"]
        return
    assert coerce(json_value(found), kind) == found
    values_to_arrow([found], kind).validate(full=True)
