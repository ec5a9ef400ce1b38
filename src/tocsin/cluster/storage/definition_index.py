"""All definitions in memory, by kind and name, and the relations that a query can name."""

from __future__ import annotations

import threading
from typing import Any, TypeVar, get_args

from tocsin.cluster.model import Broker, Channel, Column, Dataset, Definition, Feed, Function, Procedure, Role
from tocsin.cluster.query.compiler import Relation
from tocsin.cluster.storage.catalog import TABLES, Catalog, key_of
from tocsin.errors import AlreadyExists, NotFound

T = TypeVar("T", Dataset, Feed, Function, Channel, Broker, Procedure, Role)

KINDS: tuple[type[Any], ...] = get_args(Definition)

SUBSCRIPTION_COLUMNS = (Column("subscription_id", "bigint"), Column("brokers", "array<string>"))
RESULT_COLUMNS = (
    Column("execution", "bigint"),
    Column("execution_time", "timestamp"),
    Column("subscription_id", "bigint"),
)


class DefinitionIndex:
    """A copy of the definitions in the catalog; changed only by ``add``, ``replace`` and ``remove``."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.lock = threading.RLock()
        self._by_kind: dict[type[Any], dict[str, Any]] = {
            kind: {key_of(item): item for item in catalog.all(kind)} for kind in KINDS
        }
        self._by_id: dict[int, Any] = {item.id: item for items in self._by_kind.values() for item in items.values()}

    # -- definitions -------------------------------------------------------------------------------------------------

    def find(self, kind: type[T], name: str) -> T | None:
        definition: T | None = self._by_kind[kind].get(name.lower())
        return definition

    def get(self, kind: type[T], name: str) -> T:
        definition = self.find(kind, name)
        if definition is None:
            known = sorted(item.name for item in self._by_kind[kind].values())
            hint = f"existing ones: {', '.join(known[:10])}" if known else f"there is no {kind.__name__.lower()} yet"
            raise NotFound(kind.__name__.lower(), name, hint=hint)
        return definition

    def by_id(self, id: int) -> Any:
        return self._by_id.get(id)

    def all(self, kind: type[T]) -> list[T]:
        return sorted(self._by_kind[kind].values(), key=lambda item: item.id)

    def check_new(self, definition: Definition) -> None:
        """Raise AlreadyExists for a name in use, also by the relations that belong to a channel."""
        kind = type(definition)
        if key_of(definition) in self._by_kind[kind]:
            raise AlreadyExists(kind.__name__.lower(), definition.name)
        endings = {Dataset: ("",), Channel: ("Subscriptions", "Results")}.get(kind, ())
        for name in (definition.name + ending for ending in endings):
            if (relation := self.relation(name)) is not None:
                raise AlreadyExists(relation.kind, name)

    def add(self, definition: Definition, *, stored: bool = False) -> None:
        """``stored``: the caller has added it to the catalog."""
        if not stored:
            self.catalog.add(definition)
        self._by_kind[type(definition)][key_of(definition)] = definition
        self._by_id[definition.id] = definition

    def replace(self, definition: Definition) -> None:
        self.catalog.replace(definition)
        self._by_kind[type(definition)][key_of(definition)] = definition
        self._by_id[definition.id] = definition

    def remove(self, definition: Definition) -> list[str]:
        paths = self.catalog.remove(definition)
        self._by_kind[type(definition)].pop(key_of(definition), None)
        self._by_id.pop(definition.id, None)
        return paths

    # -- relations of a query ---------------------------------------------------------------------------------------

    def relation(self, name: str) -> Relation | None:
        lower = name.lower()
        if lower.startswith("catalog."):
            table = lower.removeprefix("catalog.")
            columns = TABLES.get(table)
            return None if columns is None else Relation("catalog", table, tuple(columns))
        dataset = self.find(Dataset, name)
        if dataset is not None:
            return Relation("dataset", dataset.name, dataset.columns, dataset.active, dataset.key)
        if lower.endswith("subscriptions"):
            channel = self.find(Channel, name[: -len("subscriptions")])
            if channel is not None:
                parameters = tuple(Column(item.name, item.type) for item in channel.parameters)
                return Relation("subscriptions", channel.name, SUBSCRIPTION_COLUMNS + parameters)
        if lower.endswith("results"):
            channel = self.find(Channel, name[: -len("results")])
            if channel is not None:
                fields = ",".join(f"`{column.name}`:{column.type}" for column in channel.columns)
                return Relation("results", channel.name, (*RESULT_COLUMNS, Column("result", f"struct<{fields}>")))
        return None

    def known(self) -> list[str]:
        of_channels = [f"{each.name}{end}" for each in self.all(Channel) for end in ("Results", "Subscriptions")]
        return [each.name for each in self.all(Dataset)] + of_channels + [f"catalog.{table}" for table in TABLES]

    def function(self, name: str, arity: int) -> Function | None:
        return self.find(Function, f"{name}@{arity}")
