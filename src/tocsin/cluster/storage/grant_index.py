"""All grants in memory, and what a principal sees of the definitions."""

from __future__ import annotations

from tocsin.cluster.model import Channel, Dataset, Function
from tocsin.cluster.query.compiler import Relation
from tocsin.cluster.storage.definition_index import DefinitionIndex
from tocsin.identity.grants import GrantTable, Policy, Principal


class GrantIndex:
    """A copy of the grants in the catalog. ``open``: anonymous may do everything."""

    def __init__(self, definitions: DefinitionIndex, *, open: bool) -> None:
        self.definitions = definitions
        self.open = open
        self.refresh()

    def refresh(self) -> None:
        """Called with the lock of the definitions after each change of grants, channels or what has grants."""
        channels = tuple(channel.name for channel in self.definitions.all(Channel))
        self.table = GrantTable(tuple(self.definitions.catalog.grants()), channels, self.open)
        self.policy = Policy(self.table.grants, open=self.open)


class VisibleDefinitions:
    """The definitions that a principal may query. To others an unknown name looks like one that is not granted."""

    def __init__(self, definitions: DefinitionIndex, policy: Policy, principal: Principal) -> None:
        self.definitions, self.policy, self.principal = definitions, policy, principal

    def relation(self, name: str) -> Relation | None:
        found = self.definitions.relation(name)
        if self.policy.refusal(self.principal, "admin") is None:
            return found
        if found is not None and found.kind != "dataset":
            self.policy.check(self.principal, "admin")
        self.policy.check(self.principal, "select", name)
        return found

    def function(self, name: str, arity: int) -> Function | None:
        return self.definitions.function(name, arity)

    def known(self) -> list[str]:
        if self.policy.refusal(self.principal, "admin") is None:
            return self.definitions.known()
        names = [dataset.name for dataset in self.definitions.all(Dataset)]
        return [name for name in names if self.policy.refusal(self.principal, "select", name) is None]
