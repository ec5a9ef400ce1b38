"""Recent notifications, bounded over all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.core.model.cache import Cache, Recent


def test_the_cache_returns_what_comes_after_an_execution():
    cache, recent = Cache(1_000, 10), Recent(3)
    for execution in (4, 6, 9):
        cache.add(recent, execution, b"%d" % execution)
    assert recent.after(4) == [b"6", b"9"] and recent.after(3) == [b"4", b"6", b"9"] and recent.after(9) == []


def test_the_cache_keeps_the_newest_messages_of_each_subscription():
    cache, recent = Cache(1_000, 2), Recent(0)
    for execution in (1, 2, 3):
        cache.add(recent, execution, b"x")
    assert recent.after(recent.complete_after) == [b"x", b"x"] and recent.complete_after == 1


def test_the_cache_evicts_the_oldest_messages_when_it_has_too_many_bytes():
    cache, one, two = Cache(25, 10), Recent(0), Recent(0)
    cache.add(one, 1, b"x" * 10)
    cache.add(two, 1, b"x" * 10)
    cache.add(two, 2, b"x" * 10)
    assert (one.complete_after, two.complete_after, cache.bytes) == (1, 0, 20)


def test_a_message_larger_than_the_cache_is_not_kept():
    cache, recent = Cache(10, 10), Recent(0)
    cache.add(recent, 1, b"x" * 11)
    assert (cache.bytes, cache.messages, recent.complete_after) == (0, 0, 1)


def test_forgetting_a_subscription_frees_all_its_memory():
    cache = Cache(10_000, 100)
    recents = [Recent(0) for _ in range(20)]
    for execution in range(1, 20):
        for recent in recents:
            cache.add(recent, execution, b"x")
    for recent in recents:
        cache.forget(recent)
    assert (cache.bytes, cache.messages) == (0, 0) and len(cache._order) <= 64


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.booleans()), max_size=200))
def test_the_cache_stays_within_its_limits_and_is_complete_after_its_position(steps):
    cache = Cache(100, 4)
    recents = [Recent(0) for _ in range(4)]
    added: list[list[int]] = [[], [], [], []]
    for execution, (which, size, forget) in enumerate(steps, 1):
        cache.add(recents[which], execution, b"x" * size)
        added[which].append(execution)
        if forget:
            cache.forget(recents[(which + 1) % 4])
        kept = [[number for number, _ in recent.entries] for recent in recents]
        assert kept == [[n for n in all_ if n > r.complete_after] for all_, r in zip(added, recents, strict=True)]
        assert cache.bytes == sum(len(frame) for recent in recents for _, frame in recent.entries) <= 100
        assert cache.messages == sum(map(len, kept)) and all(len(each) <= 4 for each in kept)
        assert len(cache._order) <= 2 * cache.messages + 64
