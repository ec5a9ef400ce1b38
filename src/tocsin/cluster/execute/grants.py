"""GRANT, REVOKE and SHOW: changes and lists who may do what."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Channel, Dataset, Feed, Parameter, Role
from tocsin.cluster.records import type_ddl
from tocsin.cluster.statements import ast as st
from tocsin.errors import NotFound, TypeMismatch
from tocsin.identity.grants import ALL_FEEDS, ANONYMOUS_ROLE, Condition, Grant, object_of
from tocsin.wire.feed_name import channel_of

KINDS: dict[str, type[Any]] = {"channel": Channel, "feed": Feed, "dataset": Dataset}


class GrantExecutor:
    """Callers hold the lock of the definitions."""

    def __init__(self, context: ClusterContext) -> None:
        self.context = context

    def grant(self, statement: st.Grant) -> str:
        grant = self._resolved(statement)
        made = self.context.catalog.add_grant(grant)
        return f"{grant.subject} {'granted' if made else 'was granted already'} to {grant.role}"

    def revoke(self, statement: st.Revoke) -> str:
        grant = self._resolved(statement)
        if not self.context.catalog.remove_grants(grant):
            raise NotFound("grant", f"{grant.subject} TO {grant.role}", hint=self._others(grant))
        return f"{grant.subject} revoked from {grant.role}"

    def show(self, statement: st.ShowGrants | st.ShowRoles) -> pa.Table:
        """With the setting ``anonymous``, which cannot be revoked."""
        if isinstance(statement, st.ShowRoles):
            return self._table("roles", None)
        role = statement.role
        name = None if role is None else self.context.definitions.get(Role, role).name
        found = self._table("grants", name)
        if self.context.grants.open and name in (None, ANONYMOUS_ROLE):
            row = (ANONYMOUS_ROLE, "admin", None, "the setting anonymous = 'all'")
            first = pa.Table.from_pylist([dict(zip(found.column_names, row, strict=True))], schema=found.schema)
            found = pa.concat_tables([first, found])
        return found

    def _table(self, name: str, role: str | None) -> pa.Table:
        columns, rows = self.context.catalog.rows(name)
        kept = [dict(zip([c.name for c in columns], row, strict=True)) for row in rows if role in (None, row[0])]
        return pa.Table.from_pylist(kept, schema=type_ddl.arrow_schema(columns))

    def _others(self, grant: Grant) -> str:
        """What the role still holds, because a REVOKE that changes nothing must not look like a lock."""
        if self.context.grants.open and grant.role == ANONYMOUS_ROLE:
            return "anonymous may do everything by the setting anonymous; start the data cluster with --anonymous none"
        held = [each for each in self.context.grants.table.grants if each.role == grant.role]
        same = [str(each) for each in held if each.privilege in (grant.privilege, "admin")]
        return f"it has: {'; '.join(same[:5])}" if same else f"SHOW GRANTS FOR {grant.role} lists what it has"

    def _resolved(self, statement: st.Grant) -> Grant:
        """The names as they were created, and the places of the parameters."""
        definitions = self.context.definitions
        role = definitions.get(Role, statement.role).name
        if statement.name is None:
            return Grant(role, statement.privilege)
        kind, own = object_of(statement.privilege, statement.name)
        if own is None:
            return Grant(role, statement.privilege, ALL_FEEDS)
        found: Any = definitions.get(KINDS[kind], own)
        if kind == "feed" and statement.privilege == "subscribe":
            return Grant(role, statement.privilege, channel_of(found.name))
        conditions = [self._condition(found, each) for each in statement.requirements]
        return Grant(role, statement.privilege, found.name, tuple(sorted(conditions, key=lambda each: each.place)))

    @staticmethod
    def _condition(channel: Channel, required: st.Requirement) -> Condition:
        names = [item.name.lower() for item in channel.parameters]
        if required.parameter.lower() not in names:
            known = ", ".join(item.name for item in channel.parameters) or "none"
            raise NotFound("parameter", required.parameter, hint=f"channel {channel.name} has: {known}")
        place = names.index(required.parameter.lower())
        parameter: Parameter = channel.parameters[place]
        if required.claim is None:
            try:
                type_ddl.coerce(required.value, parameter.type)
            except TypeMismatch as error:
                raise TypeMismatch(f"parameter {parameter.name!r}: {error.message}", hint=error.hint) from error
        return Condition(parameter.name, place, required.claim, required.value)
