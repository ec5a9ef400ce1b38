"""Roles and grants in the catalog, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from catalogs import Open, a_channel, a_dataset, a_feed
from tocsin.cluster.model import Role
from tocsin.cluster.storage.catalog import Catalog
from tocsin.errors import AlreadyExists, NotFound
from tocsin.identity.grants import Condition, Grant

OWN = Condition("kind", 0, "sub")
TEN = Condition("limit", 1, value=10)


@pytest.fixture
def nurses(catalog: Catalog) -> Role:
    role = Role(catalog.new_id(), "Nurses")
    catalog.add(role)
    return role


def test_the_built_in_roles_exist_from_the_beginning(catalog: Catalog) -> None:
    assert {role.name for role in catalog.all(Role)} == {"anonymous", "user"}
    with pytest.raises(AlreadyExists):
        catalog.add(Role(catalog.new_id(), "Anonymous"))


def test_grants_are_kept_in_their_order_and_survive_reopening(opener: Open) -> None:
    catalog = opener()
    a_channel(catalog), a_feed(catalog), a_dataset(catalog)
    grants = [
        Grant("user", "subscribe", "Near", (OWN, TEN)),
        Grant("user", "subscribe", "Near", (OWN,)),
        Grant("anonymous", "publish", "posts"),
        Grant("user", "select", "Reports"),
        Grant("anonymous", "subscribe"),
        Grant("user", "admin"),
    ]
    assert all(catalog.add_grant(grant) for grant in grants)
    catalog.close()
    assert opener().grants() == grants


def test_the_same_grant_is_stored_once(catalog: Catalog, nurses: Role) -> None:
    a_channel(catalog)
    assert catalog.add_grant(Grant("Nurses", "subscribe", "Near", (OWN, TEN)))
    assert not catalog.add_grant(Grant("nurses", "subscribe", "NEAR", (TEN, OWN)))
    assert catalog.add_grant(Grant("Nurses", "subscribe"))
    assert not catalog.add_grant(Grant("Nurses", "subscribe"))
    assert len(catalog.grants()) == 2


@pytest.mark.parametrize(
    ("grant", "kind"),
    [
        (Grant("doctors", "admin"), "role"),
        (Grant("user", "subscribe", "Far"), "channel"),
        (Grant("user", "publish", "Near"), "feed"),
        (Grant("user", "select", "Near"), "dataset"),
    ],
)
def test_a_grant_of_something_unknown_is_refused(catalog: Catalog, grant: Grant, kind: str) -> None:
    a_channel(catalog)
    for call in (catalog.add_grant, catalog.remove_grants):
        with pytest.raises(NotFound) as caught:
            call(grant)
        assert caught.value.fields["kind"] == kind
    assert catalog.grants() == []


def test_removing_without_conditions_removes_all_grants_on_the_object(catalog: Catalog) -> None:
    a_channel(catalog)
    plain, own, ten = (Grant("user", "subscribe", "Near", conditions) for conditions in ((), (OWN,), (TEN,)))
    others = [Grant("anonymous", "subscribe", "Near"), Grant("user", "subscribe")]
    for grant in (plain, own, ten, *others):
        catalog.add_grant(grant)
    assert catalog.remove_grants(own) == 1
    assert catalog.remove_grants(own) == 0
    assert catalog.grants() == [plain, ten, *others]
    assert catalog.remove_grants(plain) == 2
    assert catalog.grants() == others


def test_grants_end_with_their_role_and_their_object(catalog: Catalog, nurses: Role) -> None:
    channel, feed, dataset = a_channel(catalog), a_feed(catalog), a_dataset(catalog)
    for privilege, name in (("subscribe", "Near"), ("publish", "posts"), ("select", "Reports")):
        catalog.add_grant(Grant("Nurses", privilege, name))
        catalog.add_grant(Grant("user", privilege, name))
    catalog.remove(nurses)
    assert len(catalog.grants()) == 3 and {grant.role for grant in catalog.grants()} == {"user"}
    for definition in (channel, feed, dataset):
        catalog.remove(definition)
    assert catalog.grants() == []
    a_channel(catalog)
    assert catalog.grants() == []


def test_grants_are_readable_as_a_table_of_statements(catalog: Catalog) -> None:
    a_channel(catalog)
    catalog.add_grant(Grant("user", "subscribe", "Near", (OWN, TEN)))
    assert catalog.rows("grants")[1] == [
        ("user", "subscribe", "Near", "GRANT SUBSCRIBE ON CHANNEL Near WITH (kind = claim('sub'), limit = 10) TO user")
    ]
    assert sorted(catalog.rows("roles")[1]) == [("anonymous",), ("user",)]
