"""Commands before and after it is known which feeds are live."""

from __future__ import annotations

import pytest
from msgspec import Raw

from tocsin.broker.core import instructions as do
from tocsin.broker.overlay.destination import Destination
from tocsin.wire.position import Position

FEED = do.Subscribe("feed:Alarms", [["TRUE"]])
PUBLISH = do.Publish("Alarms", [Raw(b"{}")])
PLAIN = do.Subscribe("OfKind", [["fire"]])


class Lab:
    """``live``: the feeds that are, in lower case."""

    def __init__(self, *live: str) -> None:
        self.live = set(live)
        self.done: list[tuple[str, do.Upstream]] = []
        self.destination = Destination(self.take, lambda command: self.done.append(("upstream", command)))

    def take(self, command: do.Upstream) -> bool:
        name = f"feed:{command.feed}" if isinstance(command, do.Publish) else command.channel
        if name.lower() not in self.live:
            return False
        self.done.append(("live", command))
        return True


@pytest.mark.parametrize("live", [True, False])
def test_commands_for_a_feed_wait_until_it_is_known_which_are_live(live):
    """A durable subscription that is restored too early would be refused by the data cluster, and forgotten."""
    lab = Lab()
    fetch = do.Fetch(1, "FEED:alarms", 7, Position(1, 2))
    for command in (FEED, PUBLISH, fetch):
        lab.destination.carry_out(command)
    assert lab.done == []
    lab.live = {"feed:alarms"} if live else set()
    lab.destination.listed()
    assert lab.done == [("live" if live else "upstream", command) for command in (FEED, PUBLISH, fetch)]


def test_other_channels_and_feeds_of_the_configuration_do_not_wait():
    lab = Lab("feed:alarms")
    lab.destination.carry_out(PLAIN)
    lab.destination.carry_out(FEED)
    assert lab.done == [("upstream", PLAIN), ("live", FEED)]


def test_nothing_waits_afterwards():
    lab = Lab()
    lab.destination.listed()
    lab.destination.carry_out(FEED)
    assert lab.done == [("upstream", FEED)]
