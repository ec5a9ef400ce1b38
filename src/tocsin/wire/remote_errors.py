"""Errors of a broker as exceptions of the class with their code."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin import errors
from tocsin.errors import SystemFailure, TocsinError, UserError


def _all(kind: type[TocsinError]) -> Iterator[type[TocsinError]]:
    yield kind
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield from _all(each)


_CLASSES = {kind.code: kind for root in (UserError, SystemFailure) for kind in _all(root)}


def remote_error(code: str, message: str, hint: str = "") -> TocsinError:
    """An unknown code becomes SystemFailure, with the code in its fields."""
    kind = _CLASSES.get(code)
    if kind is None:
        return SystemFailure(message, hint=hint, broker_code=code)
    # Some classes have other arguments in their constructor.
    error = kind.__new__(kind)
    TocsinError.__init__(error, message, hint=hint)
    return error
