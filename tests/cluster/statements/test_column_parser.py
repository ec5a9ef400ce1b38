from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tocsin.cluster.statements.column_parser import read_type
from tocsin.cluster.statements.lexer import split
from tocsin.cluster.statements.token_cursor import Cursor
from tocsin.errors import ParseError
from tocsin.sql.script import Script


def read(text: str) -> str:
    script = Script(text)
    [(index, tokens)] = split(script)
    cursor = Cursor(script, tokens, index)
    found = read_type(cursor)
    cursor.expect_end()
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("INT", "int"),
        ("String", "string"),
        ("int64", "bigint"),
        ("int32", "int"),
        ("integer", "int"),
        ("datetime", "timestamp"),
        ("uuid", "string"),
        ("timestamp_ntz", "timestamp_ntz"),
        ("Decimal ( 10 , 2 )", "decimal(10,2)"),
        ("varchar(20)", "string"),
        ("ARRAY < String >", "array<string>"),
        ("map<string,int64>", "map<string,bigint>"),
        ("array<struct<a:int, b:array<string>>>", "array<struct<a:int,b:array<string>>>"),
        ("STRUCT<Lat double, lon: DOUBLE NOT NULL>", "struct<Lat:double,lon:double NOT NULL>"),
        ("struct<`odd name`: int COMMENT 'x'>", "struct<`odd name`:int>"),
    ],
)
def test_a_type_is_normalised(written: str, expected: str) -> None:
    assert read(written) == expected


@pytest.mark.parametrize(
    ("written", "column", "message"),
    [
        ("point", 1, "no type 'point'"),
        ("array<POLYGON>", 7, "no type 'POLYGON'"),
        ("array", 6, "'<' expected, found 'the end'"),
        ("array<>", 7, "a type expected, found '>'"),
        ("array<int", 10, "'>' expected, found 'the end'"),
        ("array(int)", 6, "'<' expected, found '('"),
        ("map<string>", 11, "',' expected, found '>'"),
        ("struct<>", 8, "the name of a field expected, found '>'"),
        ("struct<1:int>", 8, "the name of a field expected, found '1'"),
        ("struct<a>", 9, "a type expected, found '>'"),
        ("struct<a:int, A:int>", 15, "the field 'A' appears twice"),
        ("struct<a:int NOT>", 17, "NOT NULL expected"),
        ("decimal(x)", 9, "a number expected, found 'x'"),
        ("interval", 1, "'interval' cannot be the type of a stored value"),
        ("'int'", 1, "a type expected, found \"'int'\""),
        ("array<" * 40, 193, "nested deeper than 32"),
        ("int<string>", 4, "takes no '<…>'"),
        ("decimal(10", 8, "never closed"),
        ("int int", 5, "expected the end of the statement, found 'int'"),
    ],
)
def test_an_invalid_type_is_refused_with_its_place(written: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(written)
    assert message in caught.value.message
    assert caught.value.column == column


types = some.recursive(
    some.sampled_from(["int", "string", "double", "decimal(10,2)", "timestamp"]),
    lambda inner: (
        inner.map(lambda kind: f"array<{kind}>")
        | inner.map(lambda kind: f"map<string,{kind}>")
        | some.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: f"struct<{','.join(f'f{i}:{kind}' for i, kind in enumerate(kinds))}>"
        )
    ),
    max_leaves=6,
)


@given(types)
def test_a_normalised_type_stays_as_it_is(kind: str) -> None:
    assert read(kind) == kind


@given(types)
def test_spaces_and_case_of_type_names_do_not_matter(kind: str) -> None:
    spaced = (
        kind.replace("<", " < ").replace(">", " > ").replace(",", " , ").replace("int", "INT").replace("array", "Array")
    )
    assert read(spaced) == kind
