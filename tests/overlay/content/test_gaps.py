"""Every loss of publications is announced to the subscriptions that they may have been for, and to no others."""

from __future__ import annotations

from overlays import FEED, advertise, condition, overlay, publish, subscribe

from tocsin.content import Advertisement
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Gap
from tocsin.overlay.content.settings import Settings
from tocsin.simulation.content.loopback import Loopback


def gaps(loopback: Loopback) -> list[tuple[str, str, tuple[str, ...], str]]:
    return [
        (broker, each.client, each.subscriptions, each.reason)
        for broker, each in loopback.done
        if isinstance(each, Gap)
    ]


def line() -> Loopback:
    """A publisher at B1, subscribers at B3 and B4, one of them for what is not published."""
    loopback = overlay("B2 B1", "B3 B2", "B4 B2")
    advertise(loopback, "B1", "p", "a > 10")
    subscribe(loopback, "B3", "s", "a > 20")
    subscribe(loopback, "B4", "t", "a > 30")
    subscribe(loopback, "B4", "u", "a < 5")
    return loopback


def test_a_link_that_breaks_and_heals_is_no_gap():
    loopback = line()
    loopback.broken.add(frozenset(("B1", "B2")))
    publish(loopback, "B1", "p", a=40)
    loopback.run(5)
    loopback.broken.clear()
    loopback.run(5)
    assert {client for client, _ in loopback.delivered} == {"s", "t"} and gaps(loopback) == []


def test_a_neighbour_that_is_forgotten_is_announced_beyond_the_next_broker():
    loopback = line()
    loopback.broken.add(frozenset(("B1", "B2")))
    loopback.run(70)
    assert gaps(loopback) == [("B3", "s", ("s",), "unreachable"), ("B4", "t", ("t",), "unreachable")]
    loopback.broken.clear()
    loopback.run(5)
    assert gaps(loopback)[2:] == [("B3", "s", ("s",), "restored"), ("B4", "t", ("t",), "restored")]


def test_a_broker_that_restarts_has_lost_what_waited_in_it():
    loopback = line()
    loopback.start("B2", epoch=2, pin="both")
    loopback.connect([("B2", "B1")])
    loopback.run(10)
    assert {("B3", "s", ("s",), "restarted"), ("B4", "t", ("t",), "restarted")} <= set(gaps(loopback))
    assert gaps(loopback)[-1][3] == "restored"
    publish(loopback, "B1", "p", a=40)
    assert {client for client, _ in loopback.delivered} == {"s", "t"}


def test_what_is_too_much_for_a_link_is_announced_after_what_was_sent():
    few = Settings(window=1, most_waiting=4)
    loopback = Loopback()
    for name in ("B1", "B2"):
        loopback.start(name, pin="both", settings=few)
    loopback.connect([("B2", "B1")])
    advertise(loopback, "B1", "p", "TRUE")
    subscribe(loopback, "B2", "s", "TRUE")
    loopback.broken.add(frozenset(("B1", "B2")))
    for number in range(10):
        publish(loopback, "B1", "p", a=number)
    loopback.broken.clear()
    loopback.run(5)
    assert [values["a"] for _, values in loopback.delivered] == [0, 1, 2, 3, 4]
    assert gaps(loopback) == [("B2", "s", ("s",), "overflow")]


def test_a_publisher_that_leaves_is_no_gap():
    loopback = line()
    loopback.event("B1", ev.Detach("p"))
    loopback.event("B1", ev.Attach("q", "publisher"))
    loopback.event("B1", ev.AdvertiseFeed("q", "q", FEED, Advertisement(condition("a > 10"))))
    loopback.run(5)
    assert gaps(loopback) == []
