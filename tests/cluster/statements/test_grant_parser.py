from __future__ import annotations

from typing import Any

import pytest

from tocsin.cluster.statements.ast import (
    CreateRole,
    Drop,
    Grant,
    Requirement,
    Revoke,
    ShowGrants,
    ShowRoles,
    Statement,
)
from tocsin.cluster.statements.parser import parse_one
from tocsin.errors import ParseError

VARIANTS: list[tuple[str, Statement]] = [
    ("CREATE ROLE nurses", CreateRole("nurses")),
    ("create role if not exists `night shift`", CreateRole("night shift", if_not_exists=True)),
    ("DROP ROLE IF EXISTS nurses", Drop("role", "nurses", True)),
    ("GRANT SUBSCRIBE ON CHANNEL c TO nurses", Grant("subscribe", "c", "nurses")),
    ("grant subscribe on all channels to user", Grant("subscribe", None, "user")),
    ("GRANT PUBLISH ON FEED f TO anonymous", Grant("publish", "f", "anonymous")),
    ("GRANT PUBLISH ON ALL FEEDS TO role", Grant("publish", None, "role")),
    ("GRANT SELECT ON DATASET `all` TO grants", Grant("select", "all", "grants")),
    ("GRANT SELECT ON ALL DATASETS TO r", Grant("select", None, "r")),
    ("GRANT ADMIN TO admin", Grant("admin", None, "admin")),
    (
        "GRANT SUBSCRIBE ON CHANNEL c WITH (user = claim('sub'), place = 'north', n = -3, tags = ['a', 'b']) TO r",
        Grant(
            "subscribe",
            "c",
            "r",
            (
                Requirement("user", "sub"),
                Requirement("place", value="north"),
                Requirement("n", value=-3),
                Requirement("tags", value=["a", "b"]),
            ),
        ),
    ),
    ("REVOKE SUBSCRIBE ON CHANNEL c FROM r", Revoke("subscribe", "c", "r")),
    (
        "REVOKE SUBSCRIBE ON CHANNEL c WITH (p = claim('x')) FROM r",
        Revoke("subscribe", "c", "r", (Requirement("p", "x"),)),
    ),
    ("REVOKE SELECT ON ALL DATASETS FROM r", Revoke("select", None, "r")),
    ("REVOKE ADMIN FROM r", Revoke("admin", None, "r")),
    ("SHOW ROLES", ShowRoles()),
    ("SHOW GRANTS", ShowGrants()),
    ("SHOW GRANTS FOR r", ShowGrants("r")),
]

WRONG: list[tuple[str, int, str, str]] = [
    # text, column, in the message, in the hint
    ("CREATE ROLE", 12, "expected the name of the role", ""),
    ("CREATE ROLE a b", 15, "expected the end of the statement", ""),
    ("GRANT", 6, "expected a privilege (SUBSCRIBE, PUBLISH, SELECT, ADMIN)", ""),
    ("GRANT ALL ON CHANNEL c TO r", 7, "expected a privilege", ""),
    ("GRANT r TO s", 7, "expected a privilege", ""),
    ("GRANT SUBSCRIBE TO r", 17, "expected ON", "ON CHANNEL"),
    ("GRANT SUBSCRIBE ON c TO r", 20, "expected CHANNEL or FEED and a name, ALL CHANNELS, or ALL FEEDS", ""),
    ("GRANT PUBLISH ON DATASET d TO r", 18, "expected FEED", ""),
    ("GRANT SELECT ON CHANNEL c TO r", 17, "expected DATASET", ""),
    ("GRANT SUBSCRIBE ON CHANNEL TO r", 28, "found the keyword 'TO'", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c", 29, "expected TO", "name the role"),
    ("GRANT SUBSCRIBE ON CHANNEL c FROM r", 30, "expected TO, found 'FROM'", ""),
    ("REVOKE SUBSCRIBE ON CHANNEL c TO r", 31, "expected FROM, found 'TO'", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c TO 'r'", 33, "found the string", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c TO r, s", 34, "expected the end of the statement", ""),
    ("GRANT ADMIN ON CHANNEL c TO r", 13, "expected TO, found 'ON'", ""),
    ("GRANT SUBSCRIBE ON ALL CHANNELS WITH (p = 1) TO r", 33, "only SUBSCRIBE on one channel", ""),
    ("GRANT PUBLISH ON FEED f WITH (p = 1) TO r", 25, "only SUBSCRIBE on one channel", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH p = 1 TO r", 35, "expected (", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH () TO r", 36, "needs a condition", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p) TO r", 37, "expected =", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p > 1) TO r", 38, "expected =", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = NULL) TO r", 40, "no argument equals NULL", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = 1, P = 2) TO r", 36, "appears twice", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = claim()) TO r", 46, "expected the name of a claim in quotes", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = claim('')) TO r", 46, "is empty", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = claim(sub)) TO r", 46, "in quotes", ""),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = lower('A')) TO r", 40, "has to be", "not evaluated"),
    ("GRANT SUBSCRIBE ON CHANNEL c WITH (p = claim('a') || 'b') TO r", 51, "expected ',' or ')'", ""),
    ("SHOW", 5, "expected GRANTS or ROLES", ""),
    ("SHOW DATASETS", 6, "expected GRANTS or ROLES", "catalog.datasets"),
    ("SHOW GRANTS FOR", 16, "expected the name of the role", ""),
    ("SHOW GRANTS TO r", 13, "expected the end of the statement", ""),
]


@pytest.mark.parametrize(("text", "statement"), VARIANTS, ids=[text for text, _ in VARIANTS])
def test_a_statement_about_roles_and_grants_is_parsed(text: str, statement: Statement) -> None:
    assert parse_one(text) == statement


@pytest.mark.parametrize(("text", "column", "message", "hint"), WRONG, ids=[wrong[0] for wrong in WRONG])
def test_a_wrong_grant_says_what_is_wrong_and_where(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(text)
    found: Any = caught.value
    assert message in found.message and hint in found.hint
    assert found.column == column
