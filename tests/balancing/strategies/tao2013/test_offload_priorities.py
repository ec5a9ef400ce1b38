"""Who leaves first: publishers as in the text, subscribers as in table IV."""

from __future__ import annotations

import pytest
from edge_tables import B1, of_origin, overloaded

from tocsin.balancing.strategies.tao2013.metrics import (
    DOWNLINK,
    MATCHING,
    METRICS,
    QUEUE,
    UPLINK,
    LoadTable,
    Origin,
    Role,
)
from tocsin.balancing.strategies.tao2013.priorities import ordered

ORIGINS = {"l": Origin.LOCAL, "n": Origin.NONE, "r": Origin.REMOTE, "rl": Origin.BOTH}


def order(role: Role, metric: str) -> list[str]:
    table = LoadTable.of(B1, role, [of_origin(name, origin) for name, origin in ORIGINS.items()])
    return [use.topic for use in ordered(table, metric)]


@pytest.mark.parametrize(
    ("role", "metric", "expected"),
    [
        (Role.HEAD, DOWNLINK, ["n", "r", "rl", "l"]),
        (Role.HEAD, UPLINK, ["r", "rl", "l", "n"]),
        (Role.EDGE, DOWNLINK, ["r", "rl", "l", "n"]),
        (Role.EDGE, UPLINK, ["r", "rl", "l", "n"]),
        (Role.EDGE, MATCHING, ["n", "l", "r", "rl"]),  # the last three are equal
    ],
)
def test_the_groups(role, metric, expected):
    assert metric in METRICS[role] and order(role, metric) == expected


def test_within_a_group_the_one_that_may_wait_longer_goes_first():
    uses = [of_origin("a", Origin.LOCAL, 1.0), of_origin("b", Origin.LOCAL, 3.0), of_origin("c", Origin.REMOTE, 0.1)]
    assert [each.topic for each in ordered(LoadTable.of(B1, Role.EDGE, uses), UPLINK)] == ["c", "b", "a"]


def test_by_queue_depth_empty_queues_go_first():
    assert [use.topic for use in ordered(overloaded(), QUEUE, frozenset({"8"}))] == ["14", "1", "3", "8"]
