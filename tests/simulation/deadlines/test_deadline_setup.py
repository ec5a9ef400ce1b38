"""Tables V and VI, and random tables like them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.errors import UserError
from tocsin.simulation.deadlines.setup import DEADLINES, TABLE_V, TABLE_VI, Topic, paper, random_setup


def test_table_vi_needs_what_the_arithmetic_says():
    out = {topic.name: topic.bits_out / 1e6 for topic in TABLE_VI}
    assert [round(out[name], 2) for name in ("1", "3", "8", "14")] == [0.64, 2.0, 2.24, 0.72]
    assert sum(out.values()) == pytest.approx(17.76)
    assert sum(each.uplink for name, each in TABLE_V.items() if name != "bh") == 27.5e6


def test_the_burst_has_seven_topics():
    assert {len(paper(seventh).burst) for seventh in ("10", "11")} == {7}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_random_table_is_as_the_paper_describes_and_can_be_carried(seed):
    setup, dropped = random_setup(seed)
    assert tuple(topic.deadline for topic in setup.topics) == DEADLINES and len(setup.burst) == 7
    for topic in setup.topics:
        assert 1 <= topic.publishers <= 5 and 1 <= topic.subscribers <= 8 and 200 <= topic.size <= 1000
    assert setup.peak <= 0.95 and dropped > 0 and random_setup(seed) == (setup, dropped)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"burst": frozenset({"99"})}, "topics that do not exist: 99"),
        ({"first": "b9"}, "clusters and brokers differ"),
        ({"clusters": {"bh": ("b0",)}}, "clusters and brokers differ"),
        ({"topics": (Topic("1", 1, 0, 1.0, 200),), "burst": frozenset()}, "topic 1 cannot be simulated"),
        ({"topics": (Topic("1", 1, 1, 0.0, 200),), "burst": frozenset()}, "topic 1 cannot be simulated"),
        ({"topics": (Topic("1", 1, 1, 1.0, 0),), "burst": frozenset()}, "topic 1 cannot be simulated"),
        ({"topics": (Topic("1", 1, 1, 1.0, 200, "b0"),), "burst": frozenset()}, "publishers at b0"),
    ],
)
def test_set_ups_that_cannot_be(change, error):
    with pytest.raises(UserError, match=error):
        replace(paper(), **change)
