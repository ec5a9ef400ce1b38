"""What a query can read, and how it reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec import Struct
from sqlglot import exp

from tocsin.cluster.model import Column, Function

Mode = Literal["all", "new", "marked"]
NEW_COLUMN = "_is_new"
#: Rows that are hashed for one join whatever Spark estimates: some tens of megabytes.
_HASHED = 500_000
#: Pairs of a point and a row that are few: so many candidates are some tens of megabytes at the very most.
_PAIRS = 250_000


class Relation(Struct, frozen=True):
    """Something a query can read. ``name`` is canonical: of the dataset, the channel or the catalog table."""

    kind: Literal["dataset", "subscriptions", "results", "catalog"]
    name: str
    columns: tuple[Column, ...]
    active: bool = False
    key: tuple[str, ...] = ()


class Names(Protocol):
    """What exists. Lookups disregard case. ``known`` is what a wrong name may have meant."""

    def relation(self, name: str) -> Relation | None: ...

    def function(self, name: str, arity: int) -> Function | None: ...

    def known(self) -> list[str]: ...


class Use(Struct, frozen=True):
    """How a query reads a relation. new: only new rows; marked: all rows and the boolean column ``_is_new``."""

    relation: Relation
    mode: Mode = "all"


class Build(Struct, frozen=True):
    """A join of two sources: ``table``, which reads ``one``, is hashed if ``times`` the rows of ``many`` are more.

    None stands for the subscriptions.
    """

    table: str
    many: Use | None
    times: int
    one: Use | None

    def wanted(self, rows: Callable[[Use | None], int | None]) -> bool:
        many, one = rows(self.many), rows(self.one)
        return many is not None and one is not None and one < min(many * self.times, _HASHED)


class Candidates(Build, frozen=True):
    """``table`` has a list of rows of ``one`` for each place of ``many``: hashed if all pairs of the two are few."""

    def wanted(self, rows: Callable[[Use | None], int | None]) -> bool:
        many, one = rows(self.many), rows(self.one)
        return many is not None and one is not None and many * one <= _PAIRS


def uses_of(root: exp.Expr) -> dict[Use, list[exp.Table]]:
    """The tables of a resolved query, by what they read."""
    found: dict[Use, list[exp.Table]] = {}
    for table in root.find_all(exp.Table):
        if "relation" in table.meta:
            found.setdefault(Use(table.meta["relation"], table.meta["mode"]), []).append(table)
    return found
