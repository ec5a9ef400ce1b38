"""Who may do what, by roles, grants and claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.statements import ast
from tocsin.cluster.statements.parser import parse_one
from tocsin.errors import Forbidden
from tocsin.identity.grants import (
    ANONYMOUS,
    OPERATOR,
    PART,
    Condition,
    Grant,
    GrantTable,
    Policy,
    Principal,
    user,
)

ANN = user({"sub": "ann", "districts": ["north", "east"], "level": 3, "nothing": None}, ["Nurses"])
OWN = Condition("user", 0, "sub")
EVERYTHING = [(verb, name) for verb in ("subscribe", "publish", "select", "admin") for name in "cd"]


def may(grants: list[Grant], principal: Principal, *what: Any) -> bool:
    return Policy(grants).refusal(principal, *what) is None


@pytest.mark.parametrize(
    ("principal", "allowed"),
    [
        (ANONYMOUS, {"anonymous"}),
        (user({"sub": "ann"}), {"anonymous", "user"}),
        (ANN, {"anonymous", "user", "nurses"}),
        (user({"roles": ["admins"]}), {"anonymous", "user"}),  # only roles that the verifier names count
        (PART, {"anonymous", "user", "nurses", "admins"}),
        (OPERATOR, {"anonymous", "user", "nurses", "admins"}),
    ],
)
def test_a_principal_may_what_one_of_its_roles_was_granted(principal: Principal, allowed: set[str]) -> None:
    roles = {"anonymous", "user", "nurses", "admins"}
    granted = {role for role in roles if may([Grant(role, "publish", "F")], principal, "publish", "f")}
    assert granted == allowed


@pytest.mark.parametrize(
    ("grant", "allowed"),
    [
        (Grant("user", "subscribe", "C"), [("subscribe", "c")]),
        (Grant("user", "subscribe"), [("subscribe", "c"), ("subscribe", "d")]),
        (Grant("user", "publish", "c"), [("publish", "c")]),
        (Grant("user", "select"), [("select", "c"), ("select", "d")]),
        (Grant("user", "admin"), EVERYTHING),
    ],
)
def test_a_grant_allows_its_privilege_on_its_object_only(grant: Grant, allowed: list[tuple[str, str]]) -> None:
    assert [what for what in EVERYTHING if may([grant], ANN, *what)] == allowed


def test_a_part_may_subscribe_and_publish_for_others_but_neither_query_nor_administer() -> None:
    assert [verb for verb in ("subscribe", "publish", "select", "admin") if may([], PART, verb, "x")] == [
        "subscribe",
        "publish",
    ]


@pytest.mark.parametrize(
    ("condition", "args", "holds"),
    [
        (OWN, ["ann"], True),
        (OWN, {"user": "ann"}, True),
        (OWN, {"USER": "ann"}, True),
        (OWN, ["bob"], False),
        (OWN, ["Ann"], False),
        (OWN, [["ann"]], False),
        (OWN, [], False),
        (OWN, {}, False),
        (OWN, {"other": "ann"}, False),
        (OWN, {"user": "ann", "User": "bob"}, False),
        (OWN, {"user": "bob", "USER": "ann"}, False),
        (OWN, [None], False),
        (Condition("p", 1, "sub"), ["bob", "ann"], True),
        (Condition("p", 1, "sub"), ["ann", "bob"], False),
        (Condition("p", 0, "districts"), ["east"], True),
        (Condition("p", 0, "districts"), ["west"], False),
        (Condition("p", 0, "districts"), [["north", "east"]], False),
        (Condition("p", 0, "level"), [3], True),
        (Condition("p", 0, "level"), ["3"], False),
        (Condition("p", 0, "level"), [True], False),
        (Condition("p", 0, "missing"), [None], False),
        (Condition("p", 0, "nothing"), [None], False),
        (Condition("p", 0, "nothing"), ["null"], False),
        (Condition("p", 0, value="x"), ["x"], True),
        (Condition("p", 0, value="x"), ["y"], False),
        (Condition("p", 0, value=1), [1], True),
        (Condition("p", 0, value=1), [True], False),
        (Condition("p", 0, value=["a", "b"]), [["a", "b"]], True),
        (Condition("p", 0, value=["a", "b"]), ["a"], False),
    ],
)
def test_a_condition_compares_an_argument_with_a_claim_or_a_constant(
    condition: Condition, args: Any, holds: bool
) -> None:
    assert may([Grant("user", "subscribe", "C", (condition,))], ANN, "subscribe", "C", args) is holds


def test_all_conditions_of_a_grant_must_hold_but_only_one_grant_is_needed() -> None:
    north = Condition("district", 1, value="north")
    both = [Grant("user", "subscribe", "C", (OWN, north))]
    assert may(both, ANN, "subscribe", "C", ["ann", "north"])
    assert not may(both, ANN, "subscribe", "C", ["ann", "west"])
    assert not may(both, ANN, "subscribe", "C", ["bob", "north"])
    either = [Grant("user", "subscribe", "C", (OWN,)), Grant("user", "subscribe", "C", (north,))]
    assert may(either, ANN, "subscribe", "C", ["ann", "west"])
    assert may(either, ANN, "subscribe", "C", ["bob", "north"])


def test_without_arguments_the_conditions_are_not_considered() -> None:
    assert may([Grant("user", "subscribe", "C", (OWN,))], ANN, "subscribe", "C")
    assert not may([Grant("user", "subscribe", "C", (OWN,))], ANONYMOUS, "subscribe", "C")


def test_a_refusal_says_which_grant_is_missing_and_shows_no_values() -> None:
    secret = Condition("district", 1, value="secret place")
    policy = Policy([Grant("user", "subscribe", "C", (OWN, secret))])
    with pytest.raises(Forbidden) as caught:
        policy.check(ANN, "subscribe", "C", ["bob", "west"])
    assert caught.value.message == "you may not subscribe to channel 'C' with these arguments"
    assert caught.value.hint == "your grant requires that district has a certain value and user is your claim 'sub'"
    with pytest.raises(Forbidden) as caught:
        policy.check(ANONYMOUS, "subscribe", "C", ["bob", "west"])
    assert caught.value.hint == "missing: GRANT SUBSCRIBE ON CHANNEL C TO one of your roles (anonymous)"
    assert caught.value.to_dict()["privilege"] == "subscribe"


def test_an_open_policy_refuses_nothing() -> None:
    assert Policy(open=True).refusal(ANONYMOUS, "admin") is None


@pytest.mark.parametrize(
    ("older", "newer", "narrowed"),
    [
        ([], [Grant("user", "subscribe", "C")], set()),
        ([Grant("user", "subscribe", "C")], [], {"c"}),
        ([Grant("user", "subscribe", "C")], [Grant("USER", "subscribe", "c")], set()),
        ([Grant("user", "subscribe", "C")], [Grant("user", "subscribe", "C", (OWN,))], {"c"}),
        ([Grant("user", "subscribe"), Grant("user", "publish")], [], {None}),
        ([Grant("user", "admin")], [Grant("user", "subscribe")], {None}),
        ([Grant("user", "publish", "F"), Grant("user", "select", "D")], [], set()),
    ],
)
def test_channels_with_a_grant_less_are_narrowed(
    older: list[Grant], newer: list[Grant], narrowed: set[str | None]
) -> None:
    assert set(Policy(older).narrowed(Policy(newer))) == narrowed


def test_closing_an_open_policy_narrows_every_channel() -> None:
    assert set(Policy(open=True).narrowed(Policy([Grant("user", "subscribe")]))) == {None}
    assert set(Policy([Grant("user", "subscribe")]).narrowed(Policy(open=True))) == set()


def test_the_version_of_a_table_changes_with_its_grants_channels_and_openness() -> None:
    tables = [
        GrantTable(),
        GrantTable(open=True),
        GrantTable(channels=("C",)),
        GrantTable((Grant("user", "subscribe", "C"),)),
        GrantTable((Grant("user", "subscribe", "C", (OWN,)),)),
    ]
    assert len({table.version for table in tables}) == len(tables)
    assert GrantTable((Grant("user", "subscribe", "C"),)).version == tables[3].version
    assert msgspec.json.decode(msgspec.json.encode(tables[4]), type=GrantTable) == tables[4]


_names = st.text("abc_XÄ `1", min_size=1, max_size=4).filter(lambda name: bool(name.strip()))
_values = st.text(max_size=5) | st.integers(-9, 9) | st.booleans() | st.lists(st.integers(0, 9), max_size=2)
_conditions = st.builds(Condition, _names, st.integers(0, 3), value=_values) | st.builds(
    Condition, _names, st.integers(0, 3), st.text(min_size=1, max_size=5)
)
_grants = st.builds(
    Grant,
    _names,
    st.just("subscribe"),
    _names,
    st.lists(_conditions, max_size=3, unique_by=lambda each: each.parameter.lower()).map(tuple),
) | st.builds(Grant, _names, st.sampled_from(["subscribe", "publish", "select"]), st.none() | _names)


@given(_grants)
def test_a_grant_is_written_as_the_statement_that_makes_it(grant: Grant) -> None:
    parsed = parse_one(str(grant))
    assert isinstance(parsed, ast.Grant)
    assert (parsed.role, parsed.privilege, parsed.name) == (grant.role, grant.privilege, grant.name)
    assert [(each.parameter, each.claim, each.value) for each in parsed.requirements] == [
        (each.parameter, each.claim, each.value) for each in grant.conditions
    ]


@given(st.lists(_grants, max_size=6), st.lists(_grants, max_size=3), _names, st.lists(_values, max_size=4))
def test_what_is_not_narrowed_stays_allowed(older: list[Grant], added: list[Grant], name: str, args: list[Any]) -> None:
    """The broker checks only the subscriptions of narrowed channels again."""
    principal = user({"sub": "a"}, [each.role for each in older])
    before, after = Policy(older), Policy([*older[1:], *added])
    if before.refusal(principal, "subscribe", name, args) is None and not {None, name.lower()} & set(
        before.narrowed(after)
    ):
        assert after.refusal(principal, "subscribe", name, args) is None
