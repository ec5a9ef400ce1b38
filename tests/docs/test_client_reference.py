"""The reference of the client names everything that is public, and nothing else."""

from __future__ import annotations

import inspect
import re

import pytest
from pages import DOCS

from tocsin import client
from tocsin.client import sync

TEXT = (DOCS / "reference" / "client.md").read_text()
INSIDE = {"dispatch", "lag", "settle", "attach", "confirm", "deliver", "end", "unsubscribed", "following", "open"}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [client.Client, client.Subscription])
def test_every_public_name_is_described(kind):
    names = public(kind) - INSIDE | ({"lag"} if kind is client.Subscription else set())
    assert [name for name in sorted(names) if not re.search(rf"`(await )?{name}\b", TEXT)] == []


@pytest.mark.parametrize("kind", [client.Notification, client.Gap, client.Receipt, client.Status])
def test_every_field_is_described(kind):
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in TEXT] == []


def test_every_option_of_connect_is_described():
    options = set(inspect.signature(client.connect).parameters) - {"agent", "random"}
    assert [name for name in options if f"`{name}`" not in TEXT] == []


def test_every_export_is_described():
    assert [name for name in client.__all__ if f"`{name}`" not in TEXT and f"`{name}(" not in TEXT] == []


@pytest.mark.parametrize(
    ("without", "kind"), [(sync.Client, client.Client), (sync.Subscription, client.Subscription)], ids=["client", "sub"]
)
def test_the_synchronous_client_has_the_same_names(without, kind):
    assert public(without) >= public(kind) - INSIDE
