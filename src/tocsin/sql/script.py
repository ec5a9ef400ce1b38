"""The text that a user wrote, and the places in it that errors point at."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from tocsin.errors import ParseError

_LINE_END = re.compile(r"\r\n|\r|\n")


class Script:
    """A text and the offsets of its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def locate(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def error(self, offset: int, message: str, *, hint: str = "", **fields: Any) -> ParseError:
        line, column = self.locate(offset)
        return ParseError(message, line=line, column=column, hint=hint, **fields)
