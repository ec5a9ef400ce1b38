"""What is true of the users of a run: accounts, revocations and grants. Invariants compare the network with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from tocsin.identity.tokens import session_id, session_prefix

#: Who may subscribe to a channel: everyone, users, users for their own name or for their roles, or no one.
Rule = Literal["anonymous", "user", "sub", "roles", ""]
#: The condition on the argument of a channel that a rule is.
CONDITIONS: Mapping[Rule, dict[str, tuple[str | None, Any]]] = {
    "anonymous": {},
    "user": {},
    "sub": {"kind": ("sub", None)},
    "roles": {"kind": ("roles", None)},
}
Rules = Mapping[str, Rule]
Claims = Mapping[str, Any]


def allows(rule: Rule, kind: str, claims: Claims | None) -> bool:
    """Whether a token with these claims, or none, may subscribe to this kind."""
    if rule == "anonymous" or claims is None:
        return rule == "anonymous"
    return rule == "user" or (rule == "sub" and kind == claims["sub"]) or (rule == "roles" and kind in claims["roles"])


class Revoked(Struct, frozen=True):
    """Tokens of the user that the coordinator issued until ``before`` are void: of one session, or of all ('')."""

    user: str
    session: str
    before: float

    def voids(self, claims: Claims) -> bool:
        mine = self.user == claims["sub"] and self.session in ("", claims["sid"])
        return mine and claims["iat"] <= self.before


class Person(Struct, eq=False):
    """``password`` is the one that counts now, or with which the person registers next."""

    name: str
    password: str
    registered: bool = False
    roles: list[str] = field(default_factory=list)


class Device(Struct, frozen=True):
    """Of a person; what is durable belongs to it."""

    person: Person
    name: str

    @property
    def session(self) -> str:
        return session_id(self.person.name, self.name)

    @property
    def claims(self) -> Claims:
        """Those of its next token that rules depend on."""
        return {"sub": self.person.name, "sid": self.session, "roles": self.person.roles}


class People:
    """``rules`` by channel; None: the brokers let everyone do everything. ``lost``: when what was durable for a session
    or a channel may have ended."""

    def __init__(self, rules: Rules | None) -> None:
        self.persons: dict[str, Person] = {}
        self.rules: dict[str, Rule] | None = None if rules is None else dict(rules)
        self.revoked: list[Revoked] = []
        self.lost: dict[str, float] = {}

    def person(self, name: str) -> Person:
        return self.persons.setdefault(name, Person(name, f"the horse of {name}"))

    def allows(self, channel: str, kind: str, device: Device | None) -> bool:
        claims = None if device is None else device.claims
        return self.rules is None or allows(self.rules[channel], kind, claims)

    def may_be_lost(self, device: Device, channel: str, since: float) -> bool:
        """Whether a durable subscription of then may have ended by now."""
        user = device.person.name
        keys = (device.session, session_prefix(user), f"roles of {user}", channel)
        return any(self.lost.get(key, float("-inf")) >= since for key in keys)
