"""Which announcements may intersect: compared with all pairs, and routing of any condition compared with matching."""

from __future__ import annotations

from content_strategies import conditions, publications
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import FEED, overlay

from tocsin.cluster.model import Column
from tocsin.content import Advertisement, Attributes, Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Refused
from tocsin.overlay.content.routing.overlap_index import OverlapIndex

STOCK = Attributes.of_columns([Column("class", "string"), Column("symbol", "string"), Column("volume", "bigint")])


def stock(text: str) -> Condition:
    return Condition.parse(text, STOCK)


@given(st.lists(conditions(), min_size=1, max_size=6), conditions(), st.data())
def test_no_announcement_that_intersects_is_left_out(made, asked, data):
    index: OverlapIndex[int, Condition] = OverlapIndex()
    for number, condition in enumerate(made):
        index.add(number, condition)
    for number in data.draw(st.sets(st.integers(0, len(made) - 1))):
        index.remove(number)
    for what in (asked, Advertisement(asked)):
        found = {number for number, _ in index.candidates(what)}
        assert found <= set(index.items)
        assert {number for number, each in index.items.items() if Advertisement(asked).intersects(each)} <= found


def test_announcements_with_another_value_are_not_compared():
    index: OverlapIndex[str, Condition] = OverlapIndex()
    for symbol in ("YHOO", "IBM", "MSFT"):
        index.add(symbol, stock(f"class = 'STOCK' AND symbol = '{symbol}' AND volume > 10"))
    index.add("any", stock("class = 'STOCK'"))
    index.add("two", stock("symbol IN ('IBM', 'SUN')"))
    asked = stock("symbol = 'IBM' AND class = 'STOCK'")
    assert {name for name, _ in index.candidates(asked)} == {"IBM", "any", "two"}


def test_an_empty_index_keeps_nothing():
    index: OverlapIndex[str, Condition] = OverlapIndex()
    index.add("one", stock("symbol = 'IBM' OR volume = 3"))
    index.remove("one")
    assert (index.items, index._single, index._several) == ({}, {}, {})


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), conditions()), max_size=6),
    st.lists(conditions(), min_size=1, max_size=2),
    st.lists(publications(), min_size=1, max_size=6),
    st.data(),
)
def test_any_condition_is_routed_as_it_is_matched(subscribed, advertised, published, data):
    """Also disjunctions, patterns and circles, whose covering is not exact; and after some have ended."""
    loopback = overlay("B A", "C B")
    for number, condition in enumerate(advertised):
        loopback.event("A", ev.Attach(f"p{number}", "publisher"))
        loopback.event("A", ev.AdvertiseFeed(f"p{number}", "ad", FEED, Advertisement(condition)))
    there = dict(enumerate(subscribed))
    for number, (broker, condition) in there.items():
        loopback.event(broker, ev.Attach(f"s{number}", "subscriber"))
        loopback.event(broker, ev.SubscribeFeed(f"s{number}", "sub", FEED, condition))
    for number in data.draw(st.sets(st.sampled_from(sorted(there)))) if there else ():
        broker, _ = there.pop(number)
        loopback.event(broker, ev.Detach(f"s{number}"))
    for values in published:
        for number, condition in enumerate(advertised):
            loopback.delivered.clear()
            done = loopback.event("A", ev.Publish(f"p{number}", "ad", values))
            if condition.matches(values):
                right = {f"s{number}" for number, (_, each) in there.items() if each.matches(values)}
                assert sorted(client for client, _ in loopback.delivered) == sorted(right)
            else:
                assert isinstance(done[0], Refused)
