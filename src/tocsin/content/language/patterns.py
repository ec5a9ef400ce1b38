r"""Patterns of LIKE: ``%`` is any text, ``_`` one character, and an escape character takes their meaning away.

In the normal form the escape character is ``\``, and in a row of wildcards each ``_`` is before the only ``%``, so that
patterns that differ only in this are equal. A pattern is matched part by part without backtracking, so that no pattern
takes longer than its length times the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from tocsin.sql.scalars import InvalidValue

#: Tokens of a pattern: wildcards, longer than the single characters beside them.
ANY, ONE = "any", "one"
_WILD = {"%": ANY, "_": ONE}
_WRITTEN = {ANY: "%", ONE: "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}


def normal(pattern: str, escape: str = "\\") -> str:
    """The pattern in its normal form; InvalidValue where Spark refuses it."""
    return written(_tokens(pattern, escape))


def literal(text: str) -> str:
    """A pattern for this text only."""
    return "".join(_WRITTEN.get(character, character) for character in text)


def written(tokens: Sequence[str]) -> str:
    ordered: list[str] = []
    for wild, run in groupby(tokens, lambda token: token in (ANY, ONE)):
        row = list(run)
        ordered += [ONE] * row.count(ONE) + [ANY] * (ANY in row) if wild else row
    return "".join(_WRITTEN.get(token, token) for token in ordered)


def _tokens(pattern: str, escape: str) -> list[str]:
    return list(_split(pattern, escape))


def _split(pattern: str, escape: str) -> Iterator[str]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if following not in ("%", "_", escape) or not following:
                found = f"before {following!r}" if following else "at the end"
                raise InvalidValue("wrong_type", f"the escape character {escape!r} {found} of a pattern")
            yield following
        else:
            yield _WILD.get(character, character)


@lru_cache(maxsize=4096)
def parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The tokens of a pattern in normal form between its ``%``; one part if it has none."""
    out: list[tuple[str, ...]] = []
    part: list[str] = []
    for token in _split(pattern, "\\"):
        if token == ANY:
            out.append(tuple(part))
            part = []
        else:
            part.append(token)
    return (*out, tuple(part))


def text_of(part: Sequence[str]) -> str | None:
    """The characters of a part without ``_``."""
    return None if ONE in part else "".join(part)


def prefix(pattern: str) -> str:
    """The characters that every text begins with."""
    first = parts(pattern)[0]
    return "".join(first[: first.index(ONE)] if ONE in first else first)


def suffix(pattern: str) -> str:
    last = parts(pattern)[-1][::-1]
    return "".join(last[: last.index(ONE)] if ONE in last else last)[::-1]


def shortest(pattern: str) -> str:
    """A text that matches."""
    return "".join("0" if token == ONE else token for part in parts(pattern) for token in part)


def matches(pattern: str, text: Sequence[str]) -> bool:
    """``text`` may also be the tokens of a pattern: then all its texts match."""
    first, *rest = parts(pattern)
    if not rest:
        return len(text) == len(first) and _at(first, text, 0)
    last = rest.pop()
    end = len(text) - len(last)
    if end < len(first) or not _at(first, text, 0) or not _at(last, text, end):
        return False
    position = len(first)
    for part in rest:
        position = _find(part, text, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _at(part: Sequence[str], text: Sequence[str], start: int) -> bool:
    return all(token == text[start + i] or (token == ONE and text[start + i] != ANY) for i, token in enumerate(part))


def _find(part: Sequence[str], text: Sequence[str], start: int, end: int) -> int:
    """Where the part is first, between start and end; -1 if it is not."""
    plain = text_of(part)
    if isinstance(text, str) and plain is not None:
        return text.find(plain, start, end)
    return next((at for at in range(start, end - len(part) + 1) if _at(part, text, at)), -1)


def covers(general: str, special: str) -> bool:
    """Whether surely every text of ``special`` also matches ``general``."""
    return general == special or matches(general, list(_split(special, "\\")))


def disjoint(one: str, other: str) -> bool:
    """Whether surely no text matches both: their beginnings or ends differ."""
    for end in (prefix, lambda pattern: suffix(pattern)[::-1]):
        a, b = end(one), end(other)
        if not (a.startswith(b) or b.startswith(a)):
            return True
    return False
