from __future__ import annotations

import msgspec
import pytest

from tocsin.balancing.host.actions import (
    ActionKind,
    AnyAction,
    Migrate,
    Redirect,
    Rejoin,
    Replicate,
    Split,
    Swap,
)

ALL = [
    Migrate("a", "b", 2.0, "why", ("u",)),
    Swap("a", "b", 1.0, "", ("u",), ("v", "w")),
    Split("a", "b", 3.0, "", "centroid"),
    Replicate("a", "b"),
    Rejoin("a", "b"),
    Redirect("a", "b", 1.0, "", ("u",)),
]


def test_there_is_one_action_of_each_kind():
    assert {action.kind for action in ALL} == set(ActionKind) and len(ALL) == len(ActionKind)


@pytest.mark.parametrize("action", ALL, ids=lambda action: action.kind.value)
def test_an_action_survives_the_wire(action):
    assert msgspec.json.decode(msgspec.json.encode(action), type=AnyAction) == action


def test_the_peer_that_has_what_changes_its_place_executes():
    assert [action.executor for action in ALL] == ["a", "a", "a", "a", "b", "a"]


def test_a_swap_takes_from_both_and_the_others_only_from_their_source():
    swap = ALL[1]
    assert swap.given_by("a") == ("u",) == swap.given_to("b")
    assert swap.given_by("b") == ("v", "w") == swap.given_to("a")
    assert swap.units == ("u", "v", "w") and swap.given_by("c") == swap.given_to("c") == ()
    assert ALL[0].given_by("a") == ("u",) == ALL[0].given_to("b") and ALL[0].given_by("b") == ()
    assert all(not action.units for action in ALL[2:5])


def test_an_unknown_kind_of_action_is_refused_on_the_wire():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"type": "Explode", "source": "a", "target": "b"}', type=AnyAction)
