"""Content subscriptions of a drawn network: a stored feed, its records, and clients with conditions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import structs

from tocsin.broker.core.events import FeedColumn
from tocsin.simulation.reference_cluster import canonical
from tocsin.simulation.scenario import ChannelPlan, Scenario
from tocsin.wire.feed_name import channel_of

COLUMNS = (
    FeedColumn("n", "int"),
    FeedColumn("kind", "string"),
    FeedColumn("severity", "int"),
    FeedColumn("pad", "string"),
)
KINDS = ("p", "q", "r")
#: Part of the networks that have a feed, and of their clients with a content subscription.
FEEDS, SUBSCRIBERS = 0.5, 0.6
#: Part of the commits that are too large to be sent along.
LARGE = 0.1

Record = Mapping[str, Any]
#: The conditions, and what they mean: the campaign does not ask the code that it tests.
CONDITIONS: dict[str, Callable[[Record], bool]] = {
    "TRUE": lambda record: True,
    "kind = 'p'": lambda record: record["kind"] == "p",
    "[kind,eq,'q'],[severity,>,1]": lambda record: record["kind"] == "q" and (record["severity"] or 0) > 1,
    "severity >= 3 OR kind = 'r'": lambda record: (record["severity"] or 0) >= 3 or record["kind"] == "r",
    "severity IS NULL": lambda record: record["severity"] is None,
}


def draw_feeds(rng: Random, scenario: Scenario) -> Scenario:
    """Half of the networks have one."""
    if rng.random() >= FEEDS:
        return scenario
    where = rng.sample(list(CONDITIONS), rng.randint(2, len(CONDITIONS)))
    period, size = rng.choice((0.4, 0.8, 1.5)), rng.choice((60, 400))
    plan = ChannelPlan(channel_of("G"), period, 1.0, dict.fromkeys(where, size), True, 1e9, feed=True)
    clients = []
    for client in scenario.clients:
        if rng.random() < SUBSCRIBERS:
            mine = [(plan.name, each) for each in rng.sample(where, rng.randint(1, 2))]
            client = structs.replace(client, interests=[*client.interests, *mine])
        clients.append(client)
    rules = scenario.rules if scenario.rules is None else {**scenario.rules, plan.name: "anonymous"}
    return structs.replace(scenario, channels=[*scenario.channels, plan], clients=clients, rules=rules)


def records_of(rng: Random, number: int, size: int, everything: bool) -> list[Record]:
    """Of a commit; with ``everything``, one for each condition at least."""
    pad = "x" * size
    drawn = [(rng.choice(KINDS), rng.choice((None, 0, 1, 2, 3, 4))) for _ in range(rng.randint(1, 3))]
    if everything:
        drawn = [("p", None), ("q", 4), ("r", 3)]
    return [{"n": number, "kind": kind, "severity": severity, "pad": pad} for kind, severity in drawn]


def found_by(plan: ChannelPlan, records: list[Record]) -> dict[str, bytes]:
    """What each condition of the plan gets of a commit."""
    found = {where: [encode(each) for each in records if CONDITIONS[where](each)] for where in plan.size}
    return {canonical([where]): b"[" + b",".join(mine) + b"]" for where, mine in found.items() if mine}


def encode(record: Record) -> bytes:
    return msgspec.json.encode(record)
