"""The relations that a query can read, and how it reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct
from sqlglot import exp

from tocsin.cluster.model import Column, Function

Mode = Literal["all", "new", "marked"]
NEW_COLUMN = "_is_new"
#: Rows that may be hashed for one join, whatever Spark estimates: some tens of megabytes.
_HASHED = 500_000
#: Up to this many pairs of a point and a row count as few: at most some tens of megabytes.
_PAIRS = 250_000


class Relation(Struct, frozen=True):
    """A dataset, the results or subscriptions of a channel, or a catalog table, with its canonical ``name``."""

    kind: Literal["dataset", "subscriptions", "results", "catalog"]
    name: str
    columns: tuple[Column, ...]
    active: bool = False
    key: tuple[str, ...] = ()


class Names(Protocol):
    """Finds relations and functions by name, without regard to case. ``known`` lists names for hints."""

    def relation(self, name: str) -> Relation | None: ...

    def function(self, name: str, arity: int) -> Function | None: ...

    def known(self) -> list[str]: ...


class Use(Struct, frozen=True):
    """How a query reads a relation. new: only new rows; marked: all rows, with a boolean column ``_is_new``."""

    relation: Relation
    mode: Mode = "all"


class Build(Struct, frozen=True):
    """A join: ``table``, which reads ``one``, is hashed if it has fewer rows than ``times`` the rows of ``many``.

    None means the subscriptions.
    """

    table: str
    many: Use | None
    times: int
    one: Use | None

    def wanted(self, rows: Callable[[Use | None], int | None]) -> bool:
        many, one = rows(self.many), rows(self.one)
        return many is not None and one is not None and one < min(many * self.times, _HASHED)


class Candidates(Build, frozen=True):
    """``table`` has a list of rows of ``one`` for each point of ``many``: hashed if there are few pairs."""

    def wanted(self, rows: Callable[[Use | None], int | None]) -> bool:
        many, one = rows(self.many), rows(self.one)
        return many is not None and one is not None and many * one <= _PAIRS


def uses_of(root: exp.Expr) -> dict[Use, list[exp.Table]]:
    """The tables of a resolved query, by the relation they read."""
    found: dict[Use, list[exp.Table]] = {}
    for table in root.find_all(exp.Table):
        if "relation" in table.meta:
            found.setdefault(Use(table.meta["relation"], table.meta["mode"]), []).append(table)
    return found
