"""Splits a script into statements and their tokens, lazily, with exact positions.

sqlglot's tokenizer cannot do this: it fails for the whole script (statements before an unterminated string would be
lost), and its columns are wrong after a string. sqlglot parses only the queries in the statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, cast

from msgspec import Struct

from tocsin.errors import ParseError
from tocsin.sql.script import Script

Kind = Literal["word", "number", "string", "quoted", "symbol", "end"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>--[^\r\n]*+)
    |(?P<block>/\*)
    |(?P<string>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+"|[rR]'[^']*+'|[rR]"[^"]*+")
    |(?P<quoted>`(?:[^`]++|``)*+`)
    |(?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?\w*+)
    |(?P<word>[^\W0-9]\w*+)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_UNTERMINATED = {"'": "string", '"': "string", "`": "backquoted name"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
# Deeper than any real statement, and not too deep for the recursive parsers.
_DEEPEST = 200


class Token(Struct, frozen=True):
    """``text`` is the source from ``start`` up to, not including, ``end``."""

    kind: Kind
    text: str
    start: int
    end: int


def split(script: Script) -> Iterator[tuple[int, list[Token]]]:
    """(index from 1, tokens) of each statement that is not empty; ``;`` inside brackets does not split."""
    return _Splitter(script).statements()


class _Splitter:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.index = 1
        self.open: list[Token] = []

    def statements(self) -> Iterator[tuple[int, list[Token]]]:
        tokens: list[Token] = []
        for token in self._tokens():
            if token.text != ";" or self.open:
                tokens.append(token)
                if token.kind == "symbol":
                    self._bracket(token)
            elif tokens:
                self._check_characters(tokens)
                yield self.index, tokens
                self.index += 1
                tokens = []
        if self.open:
            opening = self.open[-1]
            hint = f"add the missing {_CLOSING[opening.text]!r}"
            raise self._error(opening.start, f"{opening.text!r} is never closed", hint)
        if tokens:
            self._check_characters(tokens)
            yield self.index, tokens

    def _error(self, offset: int, message: str, hint: str = "") -> ParseError:
        return self.script.error(offset, message, hint=hint, statement=self.index)

    def _bracket(self, token: Token) -> None:
        if token.text in _CLOSING:
            self.open.append(token)
            if len(self.open) > _DEEPEST:
                raise self._error(token.start, f"brackets are nested deeper than {_DEEPEST}")
        elif token.text in ")}]":
            if not self.open:
                raise self._error(token.start, f"{token.text!r} has no opening bracket")
            opening = self.open.pop()
            closing = _CLOSING[opening.text]
            if token.text != closing:
                line, column = self.script.locate(opening.start)
                place = f"the {opening.text!r} at line {line}, column {column}"
                raise self._error(token.start, f"expected {closing!r} for {place}, found {token.text!r}")

    def _tokens(self) -> Iterator[Token]:
        text, position = self.script.text, 0
        while match := _TOKEN.match(text, position):
            kind, start, position = match.lastgroup, match.start(), match.end()
            if kind in ("space", "comment"):
                continue
            if kind == "block":
                position = self._block_end(start)
            elif kind == "symbol" and match[0] in _UNTERMINATED:
                what = _UNTERMINATED[match[0]]
                raise self._error(start, f"the {what} that starts here has no closing {match[0]}")
            else:
                yield Token(cast(Kind, kind), match[0], start, position)

    def _block_end(self, start: int) -> int:
        depth, position = 1, start + 2
        while depth:
            edge = _BLOCK_EDGE.search(self.script.text, position)
            if edge is None:
                raise self._error(start, "the comment that starts here has no closing */")
            depth += 1 if edge[0] == "/*" else -1
            position = edge.end()
        return position

    def _check_characters(self, tokens: list[Token]) -> None:
        start = tokens[0].start
        try:
            self.script.text[start : tokens[-1].end].encode()
        except UnicodeEncodeError as error:
            raise self._error(start + error.start, "half a surrogate pair is not a character") from None
