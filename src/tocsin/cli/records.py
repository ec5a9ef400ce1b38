"""Splits a file of records into posts while reading: NDJSON by lines, arrays and pretty-printed objects by values."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any, AnyStr, NamedTuple

from tocsin.errors import Malformed, UserError

CHUNK = 1 << 20
#: Bytes after which a post is sent, even with few records.
POST_BYTES = 4 << 20
SPACE = re.compile(r"[ \t\r\n]*")
NDJSON = "application/x-ndjson"
JSON = "application/json"


class Post(NamedTuple):
    body: bytes
    records: int
    media: str


class Counted(io.RawIOBase):
    """A binary file or pipe that counts the bytes that were read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = getattr(self.file, "read1", self.file.read)(len(buffer))
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


def posts(file: Counted, size: int) -> Iterator[Post]:
    """Posts of at most ``size`` records, in the order of the file. Blank lines are ignored."""
    source: io.BufferedReader[Any] = io.BufferedReader(file, CHUNK)
    if source.peek(2)[:2] == b"\x1f\x8b":
        unpacked: Any = gzip.GzipFile(fileobj=source)
        source = io.BufferedReader(unpacked, CHUNK)
    try:
        if source.peek(3)[:3] == codecs.BOM_UTF8:
            source.read(3)
        first = source.peek(CHUNK).lstrip(b" \t\r\n")
        if first[:1] == b"[" or (first[:1] == b"{" and not is_json(first.partition(b"\n")[0])):
            for values in _batched(elements(source), size):
                yield Post(f"[{','.join(values)}]".encode(), len(values), JSON)
        else:
            for lines in _batched(filter(None, map(bytes.strip, source)), size):
                yield Post(b"\n".join(lines), len(lines), NDJSON)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"the file is truncated or corrupt: {error}") from error


def is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _batched(records: Iterable[AnyStr], size: int) -> Iterator[list[AnyStr]]:
    batch: list[AnyStr] = []
    weight = 0
    for record in records:
        batch.append(record)
        weight += len(record)
        if len(batch) >= size or weight >= POST_BYTES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch


def elements(source: Any) -> Iterator[str]:
    """The text of each element of an array, or of each of several consecutive values."""
    scan = json.JSONDecoder().raw_decode
    text = io.TextIOWrapper(source, "utf-8", newline="")
    buffer, at, ended, number = "", 0, False, 0
    state = "start"  # start, or in an array: first, next, comma; values: loose; after the array: done
    while True:
        at = _skip(buffer, at)
        if at >= len(buffer) - 1 and not ended:
            buffer, at, ended = _fill(text, buffer, at)
            continue
        char = buffer[at : at + 1]
        if state == "start":
            state = "first" if char == "[" else "loose"
            at += char == "["
        elif not char:
            if state in ("loose", "done"):
                return
            raise Malformed(f"the array ends in the middle, after {number} records")
        elif state == "done":
            raise Malformed(f"there is more after the end of the array, from {buffer[at : at + 20]!r}")
        elif char == "]" and state in ("first", "comma"):
            state, at = "done", at + 1
        elif state == "comma":
            if char != ",":
                raise Malformed(f"there is no comma after record {number}")
            state, at = "next", at + 1
        else:
            end = _scan(scan, buffer, at, ended, number + 1)
            if end is None or (end == len(buffer) and not ended):
                buffer, at, ended = _fill(text, buffer, at)
                continue
            number += 1
            yield buffer[at:end]
            at, state = end, "loose" if state == "loose" else "comma"


def _skip(buffer: str, at: int) -> int:
    found = SPACE.match(buffer, at)
    return found.end() if found else at


def _fill(text: io.TextIOWrapper, buffer: str, at: int) -> tuple[str, int, bool]:
    rest = buffer[at:]
    try:
        # Doubles the buffer, so that a large record is not scanned over and over.
        more = text.read(max(CHUNK, len(rest)))
    except UnicodeDecodeError as error:
        raise Malformed(f"the file is not UTF-8: {error.reason}") from error
    return rest + more, 0, not more


def _scan(scan: Any, buffer: str, at: int, ended: bool, number: int) -> int | None:
    """The end of the value; None if it may continue in the unread part."""
    try:
        end: int = scan(buffer, at)[1]
        return end
    except json.JSONDecodeError as error:
        # An error well before the end of the buffer is not that of a value cut in two.
        if not ended and error.pos > len(buffer) - 64:
            return None
        if not ended and error.msg.startswith("Unterminated string"):
            return None
        raise Malformed(f"record {number} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise Malformed(f"record {number} is nested too deeply") from error
