"""What a seed becomes: a tree of brokers, clients with conditions, and a pinned role here and there."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import Struct

from tocsin.content import Advertisement, Attribute, Attributes, Condition
from tocsin.content.language.domains import domain_of
from tocsin.overlay.content.messages import Role
from tocsin.overlay.content.settings import Settings

ATTRIBUTES = Attributes(
    [Attribute("a", domain_of("bigint")), Attribute("b", domain_of("bigint")), Attribute("kind", domain_of("string"))]
)
KINDS = ("fire", "flood", "quake")
HIGHEST = 20


class Scenario(Struct, frozen=True):
    """``links``: who connects to whom. ``spare``: brokers that may join later."""

    brokers: int
    spare: int
    links: tuple[tuple[str, str], ...]
    pins: dict[str, Role]
    publishers: int
    subscribers: int
    settings: Settings


def broker_name(number: int) -> str:
    return f"B{number}"


def draw(rng: Random) -> Scenario:
    brokers = rng.choice((2, 3, 3, 4, 5, 6, 7))
    names = [broker_name(number) for number in range(brokers)]
    links: list[tuple[str, str]] = []
    for number in range(1, brokers):
        pair = [names[number], names[rng.randrange(max(0, number - 3), number)]]
        if rng.random() < 0.3:
            pair.reverse()
        links.append((pair[0], pair[1]))
    pins: dict[str, Role] = {}
    if rng.random() < 0.4:
        pins[rng.choice(names)] = rng.choice(("both", "head", "edge"))
    # Few messages in flight, so that publications wait.
    settings = Settings(forget_after=25.0, window=rng.choice((2, 4, 16)), redirect_every=3.0)
    return Scenario(brokers, rng.randint(0, 2), tuple(links), pins, rng.randint(1, 4), rng.randint(2, 8), settings)


def condition(rng: Random) -> Condition:
    """Conjunctions of comparisons: covering is exact for them, so the tables do not depend on the order."""
    low = rng.randrange(HIGHEST)
    parts = [rng.choice((f"a >= {low}", f"a BETWEEN {low} AND {low + 6}", f"a <= {low}", f"a = {low}"))]
    if rng.random() < 0.3:
        parts.append(f"b > {rng.randrange(HIGHEST)}")
    if rng.random() < 0.3:
        parts.append(f"kind = '{rng.choice(KINDS)}'")
    return Condition.of_sql(" AND ".join(parts), ATTRIBUTES)


def advertisement(rng: Random) -> Advertisement:
    low = rng.randrange(HIGHEST // 2)
    text = rng.choice((f"a >= {low}", f"a BETWEEN {low} AND {low + 10}", "a >= 0", f"a >= {low} AND kind = 'fire'"))
    return Advertisement(Condition.of_sql(text, ATTRIBUTES))


def values(rng: Random, advertisement: Advertisement) -> dict[str, Any]:
    """Of a publication that was advertised."""
    while True:
        found = {"a": rng.randrange(HIGHEST + 1), "b": rng.randrange(HIGHEST + 1), "kind": rng.choice(KINDS)}
        if advertisement.condition.matches(found):
            return found
