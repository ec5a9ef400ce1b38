from __future__ import annotations

import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cli import records
from tocsin.cli.records import Counted, posts
from tocsin.errors import Malformed, UserError

JSON, NDJSON = records.JSON, records.NDJSON


class Trickle(io.RawIOBase):
    """Returns a few bytes at a time, like a slow pipe."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data = io.BytesIO(data)
        self.step = step

    def read1(self, size: int = -1) -> bytes:
        return self.data.read(self.step)


def cut(data: bytes, size: int = 2, step: int | None = None) -> list[tuple[bytes, int, str]]:
    return [tuple(post) for post in posts(Counted(io.BytesIO(data) if step is None else Trickle(data, step)), size)]


def test_lines_are_sent_as_they_are():
    assert cut(b'{"a":1}\n{"a":2}\n{"a":3}') == [(b'{"a":1}\n{"a":2}', 2, NDJSON), (b'{"a":3}', 1, NDJSON)]


def test_blank_lines_do_not_count():
    assert cut(b'\n{"a":1}\n \r\n{"a":2}\r\n\n') == [(b'{"a":1}\n{"a":2}', 2, NDJSON)]


def test_a_bad_line_is_sent_to_the_server():
    assert cut(b'{"a":1}\nnonsense\n') == [(b'{"a":1}\nnonsense', 2, NDJSON)]


def test_an_array_is_cut_at_its_elements():
    assert cut(b' [ {"a":1} ,{"a":[2]},{"a":"]"}]\n') == [(b'[{"a":1},{"a":[2]}]', 2, JSON), (b'[{"a":"]"}]', 1, JSON)]


def test_an_object_over_several_lines_is_one_record():
    assert cut(b'{\n "a": 1\n}\n{"a": 2}') == [(b'[{\n "a": 1\n},{"a": 2}]', 2, JSON)]


def test_gzip_is_unpacked():
    assert cut(gzip.compress(b'{"a":1}\n')) == [(b'{"a":1}', 1, NDJSON)]


def test_a_byte_order_mark_is_dropped():
    assert cut(b'\xef\xbb\xbf{"a":1}') == [(b'{"a":1}', 1, NDJSON)]


@pytest.mark.parametrize("empty", [b"", b"\n \n", b"[]", b" [ ] "])
def test_an_empty_file_makes_no_post(empty):
    assert cut(empty) == []


def test_a_post_is_not_larger_than_some_megabytes():
    line = json.dumps({"a": "x" * 1_000_000}).encode()
    assert [count for _, count, _ in cut(b"\n".join([line] * 10), size=1_000)] == [5, 5]


def test_a_record_larger_than_the_buffer_is_not_split():
    values = [{"a": "x" * 3_000_000}, {"a": 1}]
    assert json.loads(cut(json.dumps(values).encode())[0][0]) == values


@given(
    st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.floats(allow_nan=False)))),
    st.integers(1, 50),
)
def test_an_array_is_complete_when_it_is_read_in_pieces(values, step):
    sent = cut(json.dumps(values, ensure_ascii=False).encode(), 3, step)
    assert [value for body, _, _ in sent for value in json.loads(body)] == values


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text())), st.integers(1, 50))
def test_lines_are_complete_when_they_are_read_in_pieces(values, step):
    sent = cut(b"\n".join(json.dumps(value).encode() for value in values), 3, step)
    lines = [line for body, _, media in sent for line in (body.split(b"\n") if media == NDJSON else [])]
    whole = [value for body, _, media in sent if media == JSON for value in json.loads(body)]
    assert [json.loads(line) for line in lines] + whole == values


@pytest.mark.parametrize(
    "broken",
    [
        b'[{"a":1}',
        b'[{"a":1},',
        b'[{"a":1},]',
        b'[{"a":1} {"a":2}]',
        b"[{}] {}",
        b"[nonsense]",
        b'[{"a":"\xff"}]',
        b"[,]",
        b'{\n"a"\n}',
        b"[" * 100_000,
    ],
)
def test_a_broken_array_is_reported(broken):
    with pytest.raises(Malformed):
        cut(broken)


@pytest.mark.parametrize("packed", [gzip.compress(b'{"a":1}\n')[:-4], b"\x1f\x8b nonsense"])
def test_a_truncated_compressed_file_is_reported(packed):
    with pytest.raises(UserError, match="truncated"):
        cut(packed)
