"""Reads a part of a script with sqlglot; an error points at its place in the whole script."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError

from tocsin.sql.dialect import TocsinSpark
from tocsin.sql.script import Script


def read_tree(
    script: Script, start: int, text: str, what: str, into: type[exp.Expr] | None = None, **fields: Any
) -> exp.Expr:
    """The tree of ``text``, which begins at the offset ``start``; ``what`` names it in errors, which get ``fields``."""

    def fail(message: str, offset: int = start, cause: BaseException | None = None) -> NoReturn:
        raise script.error(offset, message, **fields) from cause

    dialect = TocsinSpark()
    # With the whole text as context, the length of the text before the error is its offset.
    parser = dialect.parser(error_message_context=len(text) + 1)
    try:
        raw = dialect.tokenize(text)
        trees = parser.parse_into(into, raw, text) if into else parser.parse(raw, text)
    except SqlglotParseError as error:
        detail = error.errors[0] if error.errors else {}
        reason = _plain(str(detail.get("description") or error))
        near = str(detail.get("highlight") or "")[:40]
        offset = start + len(str(detail.get("start_context") or ""))
        fail(f"{what} is not valid Spark SQL: {reason}, near {near!r}", offset)
    except RecursionError:
        fail(f"{what} is nested too deeply")
    except Exception as error:  # malformed input can raise any error in sqlglot
        fail(f"{what} is not valid Spark SQL", cause=error)
    if len(trees) != 1 or trees[0] is None:
        fail(f"{what} has to be one statement")
    return trees[0]


def _plain(description: str) -> str:
    """The message of sqlglot without Python classes: 'Required keyword: 'this' missing for <class '…Where'>'."""
    text = re.sub(r" but got <Token.*", "", description, flags=re.DOTALL)
    text = re.sub(r"<class '[\w.]*?(\w+)'>", lambda match: match[1].upper(), text)
    text = re.sub(r"^Required keyword: '\w+' missing for (\w+)$", r"something is missing in \1", text)
    text = text.removeprefix("Invalid expression / ").strip().rstrip(".")
    return text[:1].lower() + text[1:]
