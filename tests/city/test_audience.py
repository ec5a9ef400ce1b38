from __future__ import annotations

from collections import Counter, defaultdict

from tocsin.city.audience import wishes
from tocsin.city.reports import DISTRICTS, KINDS, City

CHANNELS = {
    "EmergenciesOfType": ["kind"],
    "EmergenciesAtLocation": ["location"],
    "EmergenciesNearMe": ["kind", "user"],
    "EmergenciesOfTypeAtLocation": ["kind", "location"],
    "A": ["kind"],
    "B": ["kind"],
    "C": ["user"],
}
USERS = City(seed=1, people=300).users
WISHES = wishes(1, USERS, CHANNELS)


def test_the_same_seed_gives_the_same_wishes():
    assert wishes(4, USERS, CHANNELS) == wishes(4, USERS, CHANNELS)
    assert wishes(4, USERS, CHANNELS) != wishes(5, USERS, CHANNELS)


def test_everybody_wants_one_to_five_channels():
    wanted = defaultdict(set)
    for wish in WISHES:
        wanted[wish.user].add(wish.channel)
    assert set(wanted) == set(USERS)
    assert {len(channels) for channels in wanted.values()} == {1, 2, 3, 4, 5}


def test_everybody_wants_a_channel_one_to_three_times_and_nothing_twice():
    times = Counter((wish.user, wish.channel) for wish in WISHES)
    assert set(times.values()) == {1, 2, 3}
    assert len(set(WISHES)) == len(WISHES)


def test_arguments_follow_the_parameters_of_the_channel():
    for wish in WISHES:
        for name, value in zip(CHANNELS[wish.channel], wish.args, strict=True):
            allowed = {"kind": (*KINDS, "any"), "location": DISTRICTS, "user": (wish.user,)}[name]
            assert value in allowed


def test_only_the_near_me_channel_is_asked_for_any_kind():
    assert {wish.channel for wish in WISHES if "any" in wish.args} == {"EmergenciesNearMe"}


def test_fewer_channels_than_five_are_enough():
    assert {wish.channel for wish in wishes(1, USERS, {"A": ["kind"]})} == {"A"}
