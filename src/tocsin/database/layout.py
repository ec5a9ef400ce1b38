"""The tables of a database, and the words that errors use for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from tocsin.errors import LeaseHeld, StorageError

if TYPE_CHECKING:
    from tocsin.database.interface import Session


class Layout(Struct, frozen=True):
    """``tables`` are statements for any database: {int}, {real} and {bytes} become its types, {count} an
    auto-increment key; {keyed} and {plain} end a table with or without a clustered key. One table is ``meta``
    (name, value).
    """

    #: The words for error messages, such as "catalog", and for the process that holds its lease.
    what: str
    who: str
    version: int
    tables: str
    #: For PostgreSQL: the schema, the number of the advisory lock, and the types of columns in bulk inserts; columns
    #: that are not listed are a bigint.
    schema: str
    lock: int
    arrays: Mapping[str, str] = field(default_factory=dict)
    #: What a hint suggests to use instead.
    elsewhere: str = "another home"

    def statements(self, dialect: Mapping[str, str]) -> list[str]:
        """The statements that create an empty database."""
        return [part.strip() for part in self.tables.format(**dialect).split(";") if part.strip()]

    def check_version(self, session: Session) -> None:
        rows = session.rows("SELECT value FROM meta WHERE name = 'version'")
        version = rows[0][0] if rows else None
        if version != self.version:
            raise StorageError(
                f"the {self.what} has schema version {version}, this release needs version {self.version}",
                hint=f"use the release of Tocsin that wrote it, or choose {self.elsewhere}",
                found=version,
                known=self.version,
            )

    def closed(self) -> StorageError:
        return StorageError(f"the {self.what} is closed")

    def held(self, holder: Mapping[str, Any]) -> LeaseHeld:
        host, pid = holder.get("host", "unknown"), holder.get("pid", 0)
        return LeaseHeld(
            f"another {self.who} serves this {self.what}: process {pid} on {host}",
            hint=f"stop that process, or choose {self.elsewhere}",
            host=host,
            pid=pid,
        )
