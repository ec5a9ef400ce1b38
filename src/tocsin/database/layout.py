"""What is laid down in a database, and how errors call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from tocsin.database.interface import Session
from tocsin.errors import LeaseHeld, StorageError


class Layout(Struct, frozen=True):
    """``tables`` are statements for any database: {int}, {real}, {bytes} are its types, {count} a key that counts up,
    {keyed} and {plain} end a table with or without a clustered key. They include ``meta`` (name, value).
    """

    #: "catalog": what it is, and who holds the lease of it.
    what: str
    who: str
    version: int
    tables: str
    #: In PostgreSQL: the schema, the number of the advisory lock, and the types of the arrays that bulk inserts send;
    #: every other column is a bigint.
    schema: str
    lock: int
    arrays: Mapping[str, str] = field(default_factory=dict)
    #: What to choose instead, for hints.
    elsewhere: str = "another home"
    #: By version: statements that make the next one of it.
    upgrades: Mapping[int, str] = field(default_factory=dict)

    def statements(self, dialect: Mapping[str, str]) -> list[str]:
        """They lay down an empty one."""
        return _parts(self.tables, dialect)

    def bring_up(self, session: Session, dialect: Mapping[str, str]) -> None:
        """Makes this release's version of an older one; refuses what this release cannot read."""
        rows = session.rows("SELECT value FROM meta WHERE name = 'version'")
        found: Any = rows[0][0] if rows else None
        while found in self.upgrades:
            for statement in _parts(self.upgrades[found], dialect):
                session.run(statement)
            found += 1
            session.run("UPDATE meta SET value = ? WHERE name = 'version'", (found,))
        if found != self.version:
            raise StorageError(
                f"the {self.what} has schema version {found}, this release knows {self.version}",
                hint=f"it was written by a newer Tocsin: upgrade this one, or give it {self.elsewhere}",
                found=found,
                known=self.version,
            )

    def closed(self) -> StorageError:
        return StorageError(f"the {self.what} is closed")

    def held(self, holder: Mapping[str, Any]) -> LeaseHeld:
        host, pid = holder.get("host", "unknown"), holder.get("pid", 0)
        return LeaseHeld(
            f"another {self.who} serves this {self.what}: process {pid} on {host}",
            hint=f"stop it first, or give this one {self.elsewhere}",
            host=host,
            pid=pid,
        )


def _parts(script: str, dialect: Mapping[str, str]) -> list[str]:
    return [part.strip() for part in script.format(**dialect).split(";") if part.strip()]
