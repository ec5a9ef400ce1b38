from __future__ import annotations

from random import Random

from tocsin.balancing.brokers.groups import LARGEST, MOST, PARTS, similar, turn


def crowd(count: int, seed: int = 1) -> dict[str, list[int]]:
    rng = Random(seed)
    return {f"s{n}": rng.sample(range(20), 3) for n in range(count)}


def test_each_subscriber_is_in_one_group():
    for count in (0, 1, 5, 63, 64, 65, 1_000, MOST):
        rows = crowd(count)
        groups = list(similar(rows.items()))
        assert sorted(name for group in groups for name in group) == sorted(rows)
        assert all(1 <= len(group) <= LARGEST for group in groups)
        assert len(groups) <= 2 * PARTS + 1


def test_a_few_subscribers_are_groups_of_one():
    assert all(len(group) == 1 for group in similar(crowd(PARTS).items()))


def test_subscribers_with_the_same_subscriptions_are_together():
    rows = {f"s{n}": [n % 4, 100 + n % 4] for n in range(64 * 32)}
    for group in similar(rows.items()):
        assert len({tuple(rows[name]) for name in group}) == 1


def test_the_order_of_arrival_changes_nothing():
    rows = list(crowd(500).items())
    before = list(similar(rows))
    Random(2).shuffle(rows)
    assert list(similar(rows)) == before


def test_of_very_many_subscribers_each_has_its_turn():
    names = [f"s{n}" for n in range(3 * MOST + 7)]
    turns = [turn(names, number) for number in range(4)]
    assert all(len(each) == MOST for each in turns)
    assert {name for each in turns for name in each} == set(names)
    assert turn(names[:10], 5) == names[:10]
