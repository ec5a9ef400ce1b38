"""The fast path and the exact path agree: generated schemas, mostly valid records, text that is mostly JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.cluster.model import Column
from tocsin.cluster.records.record_decoder import RecordDecoder
from tocsin.config import Limits
from tocsin.errors import NotJson

NDJSON = "application/x-ndjson"


def decoder(columns: tuple[Column, ...]) -> RecordDecoder:
    return RecordDecoder(columns, limits=Limits())


def exact(columns: tuple[Column, ...]) -> RecordDecoder:
    """A decoder that never takes the fast path: the reference."""
    made = decoder(columns)
    made._readers = []
    return made


NAMES = ["a", "b", "C", "d e", "f:g", 'h"i', "\u00e9"]
DAYS = ["2026-11-16", "1969-12-31", "0001-01-02", "9999-12-30"]
TIMES = ["", "T00", "T01:02", "T23:59:59", " 01:02:03.5", "T01:02:03.123456", "T01:02:03.123456789"]
ZONES = ["", "Z", "z", "+00:00", "-0130", "+05"]
ODD_DAYS = [*DAYS, "0000-12-31", "0001-01-01", "9999-12-31", "2026-02-29", "2024-2-9", ""]
ODD_TIMES = [*TIMES, "T24:00", "T1:02", "T01:02:03."]
ODD_ZONES = [*ZONES, "+24:00", " ", " Z"]
LOCAL = st.builds(str.__add__, st.sampled_from(DAYS), st.sampled_from(TIMES))
ZONED = st.builds(str.__add__, st.sampled_from(DAYS), st.sampled_from([t + z for t in TIMES[1:] for z in ZONES]))
STAMPS = st.builds(
    lambda *parts: "".join(parts), st.sampled_from(ODD_DAYS), st.sampled_from(ODD_TIMES), st.sampled_from(ODD_ZONES)
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": FLOATS | st.integers(-9, 9),
    "double": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([2**53 + 1, 10**25, 1e-310]),
    "decimal(7,3)": st.decimals(-9999, 9999, places=3).map(str) | st.integers(-9999, 9999) | st.just(1.5),
    "string": st.text(st.sampled_from('ab:"\\{}[],\n\u00e9😀\u0000'), max_size=6),
    "binary": st.sampled_from(["", "AAE=", "YQ=="]),
    "date": st.sampled_from(DAYS),
    "timestamp": LOCAL | ZONED,
    "timestamp_ntz": LOCAL,
}
ODD_VALUES = [128, 2**31, 2**63, 1e39, -0.0, True, "1", "YQ", "1e400", [], {}, [[None]], {"x": {}}, "12345.678", 0.0001]
ODD_TEXTS = [
    "null",
    "null",
    "1.0",
    "-0",
    "1e2",
    "1e400",
    "1e-400",
    '"\\u003a"',
    '"\\ud800"',
    "NaN",
    "01",
    '{"x":1,"x":1}',
]
ODD = STAMPS.map(json.dumps) | st.sampled_from(ODD_VALUES).map(json.dumps) | st.sampled_from(ODD_TEXTS)


def types() -> st.SearchStrategy[str]:
    simple = st.sampled_from(sorted(FITTING))
    inner = simple | simple.map(lambda t: f"array<{t}>")
    struct = st.builds(lambda x, y, n: f"struct<x:{x}{n},`f:g`:{y}>", inner, inner, st.sampled_from(["", " NOT NULL"]))
    return simple | st.one_of(struct, inner).flatmap(
        lambda t: st.sampled_from([t, f"array<{t}>", f"map<string,{t}>", f"map<int,{t}>"])
    )


def fitting(kind: str) -> st.SearchStrategy[str]:
    """JSON text that fits a type."""
    if kind.startswith("array<"):
        return st.lists(fitting(kind[6:-1]) | st.just("null"), max_size=3).map(lambda items: f"[{','.join(items)}]")
    if kind.startswith("map<"):
        key, _, item = kind[4:-1].partition(",")
        names = st.sampled_from(['"1"', '"-2"'] if key == "int" else ['"1"', '"a:"', '"\\u003a"', '"\\n"', '"a"', '""'])
        members = st.lists(
            st.tuples(names, fitting(item) | st.just("null")), max_size=3, unique_by=lambda pair: pair[0]
        )
        return members.map(lambda pairs: "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}")
    if kind.startswith("struct<"):
        first, _, second = kind[9:-1].partition(",`f:g`:")
        x = fitting(first.removesuffix(" NOT NULL")).map(lambda text: f'"x":{text}')
        y = fitting(second).map(lambda text: f'"f:g":{text}')
        return st.one_of(st.tuples(x, y), st.tuples(y, x), st.tuples(x)).map(lambda m: "{" + ",".join(m) + "}")
    return FITTING[kind].map(json.dumps)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Column, ...], bytes, str, bool]:
    """``oddity`` 0: all good; 1: odd values; 2: odd fields too; 3: odd text too."""
    oddity = draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3]))
    names = draw(st.lists(st.sampled_from(NAMES[: 5 + 2 * (oddity == 3)]), min_size=1, max_size=4, unique=True))
    columns = tuple(Column(name, draw(types()), draw(st.integers(0, 3)) > 0) for name in names)
    good = {c.name: draw(st.lists(fitting(c.type), min_size=1, max_size=3)) for c in columns}
    optional = {c.name for c in columns if c.nullable}
    odd = draw(st.lists(ODD, min_size=1, max_size=3))
    random = draw(st.randoms(use_true_random=False))
    sparse = draw(st.booleans())
    records = []
    for _ in range(random.randrange(40)):
        members = []
        for name in names:
            if sparse and random.random() < 0.2 and (oddity > 1 or name in optional):
                continue
            text = random.choice([*good[name], "null"] if name in optional else good[name])
            if oddity and random.random() < 0.03:
                text = random.choice(odd)
            members.append(f"{json.dumps(name, ensure_ascii=random.random() < 0.5)}:{text}")
        if oddity > 1 and random.random() < 0.05:
            members += members[:1] or ['"\\u0061":1']
        if oddity > 1 and random.random() < 0.05:
            members.append(random.choice(['"extra":1', '"A":null', '"\\u0061":1', '"B":[[]]']))
        records.append("{" + random.choice([",", ", "]).join(members) + "}")
    if draw(st.booleans()):
        text, content_type = f"[{','.join(records)}]", "application/json"
    else:
        breaks = ["\n"] * 60 + ["\r\n"] * 10 + ["\n\n", "\r", " ", "", ",", "\n,", "\n \t\n"] * (oddity == 3)
        text, content_type = "".join(record + random.choice(breaks) for record in records), NDJSON
    if records and oddity == 3:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(["\n", ":", '"', "}", "\u0007", ""]) + text[at + 1 :]
    return columns, text.encode(), draw(st.sampled_from([content_type, "application/json"])), draw(st.booleans())


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_the_fast_path_and_the_exact_path_agree(case: tuple[tuple[Column, ...], bytes, str, bool]) -> None:
    columns, body, content_type, ignore = case
    unknown: Any = "ignore" if ignore else "refuse"
    outcomes: list[Any] = []
    for make in (decoder, exact):
        try:
            decoded = make(columns).decode(body, content_type=content_type, unknown=unknown)
        except NotJson as error:
            outcomes.append(error.to_dict())
            continue
        decoded.table.validate(full=True)
        assert decoded.table.num_rows + len(decoded.refused) == decoded.total
        outcomes.append((decoded.table.schema, decoded.table.to_pydict(), decoded.refused, decoded.total))
    assert repr(outcomes[0]) == repr(outcomes[1])


TIMED = (Column("t", "timestamp"), Column("n", "timestamp_ntz"), Column("d", "date"))
QUICK, EXACT = decoder(TIMED), exact(TIMED)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STAMPS, min_size=1, max_size=3))
def test_both_paths_read_the_same_timestamps(stamps: list[str]) -> None:
    for name in ("t", "n", "d"):
        # Short and long columns are built differently.
        for times in (1, 10):
            body = json.dumps([{name: stamp} for stamp in stamps * times]).encode()
            quick, slow = QUICK.decode(body), EXACT.decode(body)
            assert (quick.table, quick.refused, quick.total) == (slow.table, slow.refused, slow.total)


@pytest.mark.parametrize(
    "kind", ["decimal(7,3)", "array<struct<a:int NOT NULL>>", "map<string,array<string>>", "struct<a:struct<b:date>>"]
)
def test_nested_and_exact_types_take_the_fast_path(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"d": 1.5, "a": [{"a": 1}], "m": {"x": [":"]}, "s": {"a": {"b": "2026-11-16"}}}
    body = json.dumps([{"v": values[kind[0]]}, {"v": None}, {}]).encode()
    expected = exact((Column("v", kind),)).decode(body)
    assert expected.refused == []
    monkeypatch.delattr(RecordDecoder, "_record")
    assert decoder((Column("v", kind),)).decode(body).table == expected.table


@pytest.mark.parametrize("kind", ["map<int,string>", 'struct<`a"b`:int>'])
def test_values_that_the_fast_path_cannot_read_take_the_exact_path(kind: str) -> None:
    made = decoder((Column("v", kind),))
    assert made._readers == []
    assert made.decode(b'[{"v": null}, {}]').table.num_rows == 2
