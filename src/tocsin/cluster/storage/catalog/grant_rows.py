"""Grants in the catalog: they refer to roles and objects by id, and are removed with them."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.cluster.storage.catalog.commit import checked_text
from tocsin.database import Session
from tocsin.errors import NotFound
from tocsin.identity.grants import ALL_FEEDS, Condition, Grant, object_of
from tocsin.wire.feed_name import channel_of

#: The privilege to subscribe to all feeds, in the table: a grant without an object is on all channels.
_ON_FEEDS = "subscribe_feeds"


def read(session: Session) -> list[Grant]:
    sql = (
        "SELECT r.spec, g.privilege, d.kind, d.spec, g.conditions FROM grants g JOIN definitions r ON r.id = g.role "
        "LEFT JOIN definitions d ON d.id = g.object ORDER BY g.id"
    )
    return [
        Grant(_name(role), *_object(privilege, kind, object), _conditions(conditions))
        for role, privilege, kind, object, conditions in session.rows(sql)
    ]


def _object(privilege: str, kind: str | None, spec: str | None) -> tuple[Any, str | None]:
    """The privilege, and the name as grants have it."""
    if privilege == _ON_FEEDS:
        return "subscribe", ALL_FEEDS
    if spec is None:
        return privilege, None
    return privilege, channel_of(_name(spec)) if (privilege, kind) == ("subscribe", "feed") else _name(spec)


def add(session: Session, id: int, grant: Grant) -> bool:
    role, object = _ids(session, grant)
    if any(grant.key == known.key for _, known in _same(session, grant, role, object)):
        return False
    conditions = checked_text(msgspec.json.encode(grant.conditions).decode())
    sql = "INSERT INTO grants (id, role, privilege, object, conditions) VALUES (?, ?, ?, ?, ?)"
    session.run(sql, (id, role, _privilege(grant), object, conditions))
    return True


def remove(session: Session, grant: Grant) -> int:
    known = _same(session, grant, *_ids(session, grant))
    gone = [(id,) for id, each in known if not grant.conditions or each.key == grant.key]
    session.each("DELETE FROM grants WHERE id = ?", gone)
    return len(gone)


def _ids(session: Session, grant: Grant) -> tuple[int, int | None]:
    """Of the role and of the object."""
    role = _id(session, "role", grant.role)
    if grant.name is None:
        return role, None
    kind, own = object_of(grant.privilege, grant.name)
    return role, None if own is None else _id(session, kind, own)


def _id(session: Session, kind: str, name: str) -> int:
    sql = "SELECT id FROM definitions WHERE kind = ? AND name = ?"
    rows = session.rows(sql, (kind, checked_text(name.lower())))
    if not rows:
        raise NotFound(kind, name)
    return int(rows[0][0])


def _same(session: Session, grant: Grant, role: int, object: int | None) -> list[tuple[int, Grant]]:
    """The grants of the role on the object, with their ids."""
    sql = "SELECT id, conditions FROM grants WHERE role = ? AND privilege = ? AND COALESCE(object, 0) = ?"
    rows = session.rows(sql, (role, _privilege(grant), object or 0))
    return [(id, msgspec.structs.replace(grant, conditions=_conditions(text))) for id, text in rows]


def _privilege(grant: Grant) -> str:
    return _ON_FEEDS if grant.name == ALL_FEEDS else grant.privilege


def _name(spec: str) -> str:
    found: dict[str, Any] = msgspec.json.decode(spec)
    return str(found["name"])


def _conditions(text: str) -> tuple[Condition, ...]:
    return msgspec.json.decode(text, type=tuple[Condition, ...])
