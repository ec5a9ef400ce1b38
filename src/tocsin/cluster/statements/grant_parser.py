"""Parses GRANT, REVOKE and SHOW."""

from __future__ import annotations

from typing import get_args

from tocsin.cluster.statements import ast as st
from tocsin.cluster.statements.ast import Statement
from tocsin.cluster.statements.token_cursor import RESERVED_COLUMNS, Cursor
from tocsin.identity.grants import ALL_FEEDS, OBJECTS, Privilege
from tocsin.wire.feed_name import channel_of

PRIVILEGES: tuple[Privilege, ...] = get_args(Privilege)


def read_grant(cursor: Cursor, *, revoke: bool = False) -> Statement:
    """``privilege [ON object] [WITH (…)] TO | FROM role``"""
    privilege = next((each for each in PRIVILEGES if cursor.accept(each)), None)
    if privilege is None:
        cursor.fail_expected(f"a privilege ({', '.join(PRIVILEGES).upper()})")
    name, requirements = _object(cursor, privilege) if privilege in OBJECTS else (None, ())
    word = "FROM" if revoke else "TO"
    cursor.expect(word, hint=f"name the role: {word} role")
    kind = st.Revoke if revoke else st.Grant
    return kind(privilege, name, cursor.name("the role"), requirements)


def _object(cursor: Cursor, privilege: Privilege) -> tuple[str | None, tuple[st.Requirement, ...]]:
    kind = OBJECTS[privilege].upper()
    either = f"{kind} and a name, or ALL {kind}S"
    if privilege == "subscribe":
        either = "CHANNEL or FEED and a name, ALL CHANNELS, or ALL FEEDS"
    cursor.expect("ON", hint=f"say on what: ON {either}")
    if privilege == "subscribe" and (cursor.at("FEED") or cursor.at("ALL", "FEEDS")):
        return _feed(cursor), ()
    name = None
    if not cursor.accept("ALL", f"{kind}S"):
        if not cursor.accept(kind):
            cursor.fail_expected(f"{either}, after {privilege.upper()} ON")
        name = cursor.name(f"the {kind.lower()}")
    if not cursor.at("WITH"):
        return name, ()
    if privilege != "subscribe" or name is None:
        cursor.fail("only SUBSCRIBE on one channel can have conditions", hint="they name the channel's parameters")
    cursor.next()
    cursor.expect("(", hint="write WITH (parameter = claim('sub'))")
    opening = cursor.peek()
    found = cursor.items(lambda: _requirement(cursor))
    if not found:
        cursor.fail("WITH needs a condition", at=opening, hint="leave it out, or write WITH (parameter = claim('sub'))")
    names = [each.parameter.lower() for each in found]
    if len(set(names)) < len(names):
        cursor.fail("a parameter appears twice in WITH", at=opening)
    return name, tuple(found)


def _feed(cursor: Cursor) -> str:
    if cursor.accept("ALL", "FEEDS"):
        name = ALL_FEEDS
    else:
        cursor.expect("FEED")
        name = channel_of(cursor.name("the feed"))
    if cursor.at("WITH"):
        cursor.fail("SUBSCRIBE on a feed cannot have conditions", hint="make a channel for what a role may see")
    return name


def _requirement(cursor: Cursor) -> st.Requirement:
    parameter = cursor.name("a parameter", RESERVED_COLUMNS)
    cursor.expect("=", hint="a condition is: parameter = claim('name'), or parameter = literal")
    if cursor.accept("claim", "("):
        token = cursor.peek()
        claim = cursor.string("the name of a claim")
        if not claim:
            cursor.fail("the name of a claim is empty", at=token)
        cursor.expect(")")
        return st.Requirement(parameter, claim)
    token = cursor.peek()
    value = cursor.literal()
    if value is None:
        cursor.fail("no argument equals NULL", at=token, hint="leave the parameter out if any value is allowed")
    return st.Requirement(parameter, value=value)


def read_show(cursor: Cursor) -> Statement:
    if cursor.accept("ROLES"):
        return st.ShowRoles()
    if not cursor.accept("GRANTS"):
        cursor.fail_expected("GRANTS or ROLES", hint="for all else query the catalog: SELECT * FROM catalog.datasets")
    return st.ShowGrants(cursor.name("the role") if cursor.accept("FOR") else None)
