from __future__ import annotations

import pytest
from peer_scope import scope

from tocsin.balancing.host.actions import ActionKind, Replicate, Split
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.messages import Push
from tocsin.balancing.strategies.antoine2014.gupta import (
    EVENTS,
    JOIN,
    SUBSCRIPTIONS,
    HeaviestGossip,
    JoinHeaviest,
    OnJoin,
)
from tocsin.errors import UserError

UNDER = LoadState.UNDERLOADED


def reported(peer: str, subscriptions: float, events: float) -> list[LoadInformation]:
    return [LoadInformation(peer, SUBSCRIPTIONS, subscriptions), LoadInformation(peer, EVENTS, events)]


def test_only_a_peer_that_joins_acts():
    assert OnJoin().make_decision(scope(subject=JOIN), SUBSCRIPTIONS) is UNDER
    assert OnJoin().make_decision(scope(), SUBSCRIPTIONS) is LoadState.NORMAL
    assert OnJoin().make_decision(scope(subject="an item"), SUBSCRIPTIONS) is LoadState.NORMAL


def test_neighbours_get_the_own_load_and_the_k_heaviest_known():
    known = [LoadInformation(name, "load", load) for name, load in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    at = scope(known=known, neighbours=("p", "q"))
    gossip = HeaviestGossip(2)
    sent = list(gossip.exchange_load_information(at, gossip.recipients(at), [LoadInformation("me", "load", 9.0)]))
    assert [to for to, _ in sent] == ["p", "q"]
    push = sent[0][1]
    assert isinstance(push, Push) and [each.peer for each in push.information] == ["me", "b", "c"]


def test_the_k_heaviest_are_one_or_more():
    with pytest.raises(UserError, match="at least 1"):
        HeaviestGossip(0)


def test_a_peer_that_joins_asks_a_random_one_first():
    found = JoinHeaviest().select_target(scope(subject=JOIN), SUBSCRIPTIONS, UNDER)
    assert isinstance(found, Ask) and found.recipient in ("p", "q", "r")
    assert JoinHeaviest().select_target(scope(subject=JOIN, neighbours=()), SUBSCRIPTIONS, UNDER) is None


def test_it_relieves_the_heaviest_by_the_criterion_that_is_worst():
    at = scope(subject=JOIN, answer=[*reported("a", 90.0, 4.0), *reported("b", 10.0, 5.0)])
    split, replicate = JoinHeaviest(Split), JoinHeaviest(Replicate)
    assert split.select_target(at, SUBSCRIPTIONS, UNDER) == "a"
    assert replicate.select_target(at, EVENTS, UNDER) is None
    assert list(split.rebalance(at, SUBSCRIPTIONS, UNDER, "a", ())) == [
        Split("a", "me", 45.0, "joins the heaviest", "subscriptions")
    ]


def test_a_zone_with_too_many_events_is_replicated():
    at = scope(subject=JOIN, answer=[*reported("a", 10.0, 90.0), *reported("b", 10.0, 1.0)])
    assert JoinHeaviest(Split).select_target(at, SUBSCRIPTIONS, UNDER) is None
    replicate = JoinHeaviest(Replicate)
    assert replicate.select_target(at, EVENTS, UNDER) == "a"
    (action,) = replicate.rebalance(at, EVENTS, UNDER, "a", ())
    assert action.kind is ActionKind.REPLICATE and (action.source, action.target) == ("a", "me")


def test_where_no_peer_has_a_load_none_is_relieved():
    at = scope(subject=JOIN, answer=reported("a", 0.0, 0.0))
    assert JoinHeaviest(Split).select_target(at, SUBSCRIPTIONS, UNDER) is None
