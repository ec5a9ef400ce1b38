"""What the people of a city subscribe to, and when: as in the papers' set-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from tocsin.demo.city.ground import stream
from tocsin.demo.city.reports import KINDS

#: The weight of a channel about the subscriber itself; the others have 1. Two people never share such a
#: subscription. So there are about 600 BE subscriptions for 2,200 FE subscriptions, as the papers have it.
ONESELF = 0.15
#: Seconds within which all people log in, and within which they then subscribe.
LOGIN, SUBSCRIBE = 240.0, 240.0


class Interest(Struct, frozen=True):
    """One FE subscription."""

    channel: str
    args: tuple[str, ...]


class Plan(Struct, frozen=True):
    """When a person logs in and subscribes, and to what; seconds of the city's clock."""

    login: float
    subscribe: float
    interests: tuple[Interest, ...]


def plans(seed: int, users: Sequence[str], channels: Mapping[str, Sequence[str]], places: Sequence[str]) -> list[Plan]:
    """Each person subscribes to one to five channels (name: parameters), one to three times each."""
    rng = stream(seed, "wishes")
    names, found = sorted(channels), []
    taken = np.array([ONESELF if "user" in channels[name] else 1.0 for name in names])
    for user in users:
        interests = []
        count = rng.integers(1, min(5, len(names)) + 1)
        for at in rng.choice(len(names), count, replace=False, p=taken / taken.sum()):
            for _ in range(rng.integers(1, 4)):
                kind = KINDS[rng.integers(len(KINDS))]
                if names[at] == "EmergenciesNearMe" and rng.random() < 0.5:
                    kind = "any"
                values = {"kind": kind, "location": places[int(rng.integers(len(places)))], "user": user}
                interests.append(Interest(names[at], tuple(values[each] for each in channels[names[at]])))
        login = float(rng.uniform(0, LOGIN))
        found.append(Plan(login, login + float(rng.uniform(1, SUBSCRIBE)), tuple(dict.fromkeys(interests))))
    return found
