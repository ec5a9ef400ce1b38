from __future__ import annotations

import pytest
from peer_scope import about, scope

from tocsin.balancing.host.actions import ActionKind, Migrate, Redirect
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.messages import Key
from tocsin.balancing.strategies.antoine2014.byers import Choices, LeastLoaded, OnInsertion, by_name
from tocsin.errors import UserError

HEAVY = LoadState.OVERLOADED


def test_only_an_insertion_is_acted_on():
    assert OnInsertion().make_decision(scope(), "load") is LoadState.NORMAL
    assert OnInsertion().make_decision(scope(subject="item"), "load") is HEAVY


def test_all_choices_are_asked_at_the_same_time():
    choices = Choices(3, choose=lambda scope, subject, d: [Key(number) for number in range(d)])
    assert choices.select(scope(subject="item"), "load") == Ask(Key(0), also=(Key(1), Key(2)), seconds=5.0)


def test_the_first_choice_of_a_newcomer_is_the_peer_that_it_came_to():
    at = scope(subject="item")
    assert by_name(at, "item", 2)[0] == "me" and len(set(by_name(at, "item", 3))) == 3
    asked = Choices(2).select(at, "load")
    assert isinstance(asked, Ask) and asked.recipient != "me" and asked.also == ()


def test_the_least_loaded_choice_gets_the_item_and_a_tie_leaves_it_here():
    balancer = LeastLoaded(Choices(3))
    less = scope(servers={"v": 5.0}, subject="item", answer=[about("p", 4.0), about("q", 2.0)])
    assert balancer.select_target(less, "load", HEAVY) == "q"
    tie = scope(servers={"v": 5.0}, subject="item", answer=[about("p", 5.0)])
    assert balancer.select_target(tie, "load", HEAVY) is None


@pytest.mark.parametrize(("action", "kind"), [(Migrate, ActionKind.MIGRATE), (Redirect, ActionKind.REDIRECT)])
def test_it_migrates_or_is_stored_with_a_pointer(action, kind):
    balancer, at = LeastLoaded(Choices(), action), scope(subject="item")
    assert balancer.actions == {kind}
    moved = balancer.select_load_to_move(at, "load", HEAVY, "p")
    (found,) = balancer.rebalance(at, "load", HEAVY, "p", moved)
    assert type(found) is action and (found.source, found.target, found.units) == ("me", "p", ("item",))


def test_a_peer_alone_asks_none():
    assert Choices(2).select(scope(subject="item", neighbours=()), "load") is None


def test_no_choice_is_refused():
    with pytest.raises(UserError, match="0 choices"):
        Choices(0)
