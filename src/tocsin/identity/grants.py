"""Grants: which principal may subscribe, publish, query and administer. Pure.

A principal holds roles, a role holds grants. Everyone has the role ``anonymous``, and a logged-in user also ``user``
and the roles of its token: logging in takes nothing away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tocsin.errors import Forbidden
from tocsin.wire.feed_name import PREFIX, feed_of

Privilege = Literal["subscribe", "publish", "select", "admin"]
Arguments = list[Any] | dict[str, Any]

ANONYMOUS_ROLE, USER_ROLE = "anonymous", "user"
#: The kind of object that each privilege is about.
OBJECTS: dict[Privilege, str] = {"subscribe": "channel", "publish": "feed", "select": "dataset"}
#: The name of a grant to subscribe to all feeds. That of one feed is the name of its channel.
ALL_FEEDS = PREFIX


def object_of(privilege: Privilege, name: str | None) -> tuple[str, str | None]:
    """The kind and the own name of what a grant is about."""
    feed = feed_of(name) if privilege == "subscribe" and name is not None else None
    return (OBJECTS[privilege], name) if feed is None else ("feed", feed or None)


_PHRASES = {"subscribe": "subscribe to", "publish": "publish to", "select": "query"}

_encode = msgspec.json.Encoder(order="sorted").encode
#: Sets of roles with an object whose grants are remembered: tokens name roles.
REMEMBERED = 10_000


class Condition(Struct, frozen=True):
    """The argument for a parameter, which has this place, must be the value of the ``claim``, or one of its values if
    it is a list; without a claim it must be ``value``."""

    parameter: str
    place: int
    claim: str | None = None
    value: Any = None

    def holds(self, given: Arguments, claims: Mapping[str, Any]) -> bool:
        argument = _argument(given, self.parameter, self.place)
        if argument is None:
            return False
        required = self.value if self.claim is None else claims.get(self.claim)
        if isinstance(required, str) and isinstance(argument, str):
            return required == argument
        values = required if self.claim is not None and isinstance(required, list) else [required]
        return any(each is not None and _encode(each) == _encode(argument) for each in values)

    def __str__(self) -> str:
        value = f"claim({_literal(self.claim)})" if self.claim is not None else _literal(self.value)
        return f"{_name(self.parameter)} = {value}"


def _argument(given: Arguments, parameter: str, place: int) -> Any:
    """None if it is missing or ambiguous."""
    if isinstance(given, list):
        return given[place] if place < len(given) else None
    found = [value for name, value in given.items() if name.lower() == parameter.lower()]
    return found[0] if len(found) == 1 else None


class Grant(Struct, frozen=True):
    """``name`` is that of the channel, feed or dataset; None: all of them. All ``conditions`` must hold. The name of a
    feed to subscribe to is that of its channel, ``feed:`` and its own."""

    role: str
    privilege: Privilege
    name: str | None = None
    conditions: tuple[Condition, ...] = ()

    def allows(self, given: Arguments, claims: Mapping[str, Any]) -> bool:
        return all(condition.holds(given, claims) for condition in self.conditions)

    @property
    def key(self) -> bytes:
        """Equal for grants that mean the same: names compare without regard to case."""
        name = self.name if self.name is None else self.name.lower()
        conditions = sorted(_encode([each.place, each.claim, each.value]) for each in self.conditions)
        return _encode([self.role.lower(), self.privilege, name, conditions])

    @property
    def subject(self) -> str:
        """As it is written after GRANT: ``SUBSCRIBE ON CHANNEL c``."""
        return _subject(self.privilege, self.name)

    def __str__(self) -> str:
        conditions = f" WITH ({', '.join(map(str, self.conditions))})" if self.conditions else ""
        return f"GRANT {self.subject}{conditions} TO {_name(self.role)}"


class Principal(Struct, frozen=True):
    """``holds``: privileges of its credential itself, such as an operator's token; on all objects."""

    roles: frozenset[str]
    claims: Mapping[str, Any] = {}
    holds: frozenset[Privilege] = frozenset()


ANONYMOUS = Principal(frozenset({ANONYMOUS_ROLE}))
#: An operator, and the system itself.
OPERATOR = Principal(frozenset(), holds=frozenset({"admin"}))
#: A broker: it has checked what it does on behalf of its subscribers. For itself it may do what everyone may.
PART = Principal(frozenset({ANONYMOUS_ROLE}), holds=frozenset({"subscribe", "publish"}))


def user(claims: Mapping[str, Any], roles: Iterable[str] = ()) -> Principal:
    """The principal of a valid token."""
    return Principal(frozenset({ANONYMOUS_ROLE, USER_ROLE, *(role.lower() for role in roles)}), claims)


class GrantTable(Struct, frozen=True):
    """All grants and the names of all channels, as the data cluster hands them to brokers. ``open``: its setting lets
    anonymous do everything."""

    grants: tuple[Grant, ...] = ()
    channels: tuple[str, ...] = ()
    open: bool = False
    version: str = ""

    def __post_init__(self) -> None:
        if not self.version:
            text = _encode([self.open, sorted(self.channels), sorted(grant.key for grant in self.grants)])
            msgspec.structs.force_setattr(self, "version", sha256(text).hexdigest()[:32])


class Policy:
    """Decides by the grants of a table. ``open``: the role anonymous, which everyone has, holds every privilege."""

    def __init__(self, grants: Iterable[Grant] = (), *, open: bool = False) -> None:
        self.open = open
        self._grants: dict[tuple[Privilege, str | None], list[Grant]] = {}
        for grant in grants:
            key = (grant.privilege, grant.name if grant.name is None else grant.name.lower())
            self._grants.setdefault(key, []).append(grant)
        self._known: dict[tuple[frozenset[str], Privilege, str | None], list[Grant]] = {}
        self._keys = {grant.key: grant for some in self._grants.values() for grant in some}

    def refusal(
        self, principal: Principal, privilege: Privilege, name: str | None = None, args: Arguments | None = None
    ) -> Forbidden | None:
        """Why the principal may not; None if it may. Without ``args``, conditions are not considered."""
        if self.open or privilege in principal.holds or "admin" in principal.holds:
            return None
        mine = self._of(principal.roles, privilege, name)
        for grant in mine:
            if args is None or not grant.conditions or grant.allows(args, principal.claims):
                return None
        if self._of(principal.roles, "admin", None):
            return None
        return _forbidden(principal, privilege, name, mine)

    def check(
        self, principal: Principal, privilege: Privilege, name: str | None = None, args: Arguments | None = None
    ) -> None:
        refusal = self.refusal(principal, privilege, name, args)
        if refusal is not None:
            raise refusal

    def _of(self, roles: frozenset[str], privilege: Privilege, name: str | None) -> list[Grant]:
        """The grants of the roles on the object, and on all of its kind."""
        own = None if name is None else name.lower()
        every = ALL_FEEDS if name is not None and privilege == "subscribe" and feed_of(name) is not None else None
        if (privilege, own) not in self._grants:
            own = every  # a client may name anything: that is not remembered
        known = self._known.get((roles, privilege, own))
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            keys = {(privilege, own), (privilege, every)}
            known = [grant for key in keys for grant in self._grants.get(key, ()) if grant.role.lower() in roles]
            self._known[roles, privilege, own] = known
        return known

    def narrowed(self, newer: Policy) -> Collection[str | None]:
        """The channels, in lower case, to which a principal may subscribe less by the newer policy; None stands for all
        of them."""
        if newer.open:
            return ()
        if self.open:
            return (None,)
        lost = [grant for key, grant in self._keys.items() if key not in newer._keys]
        return {
            None if grant.privilege == "admin" or grant.name in (None, ALL_FEEDS) else str(grant.name).lower()
            for grant in lost
            if grant.privilege in ("subscribe", "admin")
        }


def _forbidden(principal: Principal, privilege: Privilege, name: str | None, mine: list[Grant]) -> Forbidden:
    roles = ", ".join(sorted(principal.roles)) or "none"
    if privilege == "admin":
        message = "this needs the privilege ADMIN"
    else:
        kind, own = object_of(privilege, name)
        message = f"you may not {_PHRASES[privilege]} {kind} {own!r}"
    # Values of conditions stay secret: they may be those of other users.
    limited = sorted({_limit(each) for grant in mine for each in grant.conditions})
    if limited:
        message += " with these arguments"
        hint = f"your grant requires that {' and '.join(limited)}"
    else:
        hint = f"missing: GRANT {_subject(privilege, name)} TO one of your roles ({roles})"
        hint += "; operators send the token in admin.token" if privilege == "admin" else ""
    return Forbidden(message, hint=hint, privilege=privilege, name=name)


def _limit(condition: Condition) -> str:
    if condition.claim is not None:
        return f"{condition.parameter} is your claim {condition.claim!r}"
    return f"{condition.parameter} has a certain value"


def _subject(privilege: Privilege, name: str | None) -> str:
    if privilege == "admin":
        return "ADMIN"
    kind, own = object_of(privilege, name)
    kind = kind.upper()
    return f"{privilege.upper()} ON {f'ALL {kind}S' if own is None else f'{kind} {_name(own)}'}"


def _name(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return _encode(value).decode()
