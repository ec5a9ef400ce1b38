"""The index finds what each condition by itself accepts, whatever was added and removed before."""

from __future__ import annotations

import random

import pytest
from content_strategies import ATTRIBUTES, conditions, publications
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.cluster.model import Column
from tocsin.content import Attributes, Condition, MatchIndex
from tocsin.errors import AlreadyExists, LimitExceeded, NotFound, UserError

STOCK = Attributes.of_columns(
    [Column("class", "string"), Column("symbol", "string"), Column("price", "double"), Column("volume", "bigint")]
)


def stock(text: str) -> Condition:
    return Condition.parse(text, STOCK)


def matched(index: MatchIndex, publication: dict[str, object]) -> list[int]:
    found = index.match(publication).tolist()
    assert len(found) == len(set(found))
    return sorted(found)


@settings(max_examples=40)
@given(
    st.lists(conditions(4), min_size=10, max_size=25),
    st.lists(publications(), min_size=4, max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_index_matches_as_each_condition_does(several, rows, dice):
    index = MatchIndex(ATTRIBUTES)
    present: dict[int, Condition] = {}
    for number, condition in enumerate(several):
        index.add(number, condition)
        present[number] = condition
        if dice.random() < 0.3:
            gone = dice.choice(list(present))
            index.remove(gone)
            del present[gone]
    for row in rows:
        assert matched(index, row) == [number for number, each in present.items() if each.matches(row)]


def _random_condition(dice: random.Random) -> Condition:
    """Of a kind that there are many of: shared values, ranges of all sizes, prefixes, suffixes and parts of texts."""
    low = dice.randrange(1000)
    parts = dice.sample(
        [
            f"symbol = 'S{dice.randrange(5)}'",
            f"volume > {dice.randrange(1000)}",
            f"price < {dice.randrange(1000) / 10}",
            f"volume BETWEEN {low} AND {low + 2 ** dice.randrange(9)}",
            f"class LIKE '{dice.choice('ab')}%'",
            f"class LIKE '%{dice.choice('xy')}z'",
            f"class LIKE '%{dice.choice(['abc', 'bcx', 'b'])}%'",
            f"symbol IN ('S1', 'S{dice.randrange(5)}')",
            f"volume <> {dice.randrange(1000)}",
            "price IS NULL",
        ],
        dice.choice([1, 1, 2, 2, 3]),
    )
    return stock(" AND ".join(parts) + (" OR volume = 7" if dice.random() < 0.05 else ""))


def _random_publication(dice: random.Random) -> dict[str, object]:
    found = {
        "class": dice.choice(["abcxz", "bcyz", "a", "zz"]),
        "symbol": f"S{dice.randrange(6)}",
        "price": dice.randrange(1000) / 10,
        "volume": dice.randrange(1100),
    }
    return {name: value for name, value in found.items() if dice.random() < 0.85}


def test_thousands_of_conditions_come_and_go():
    dice = random.Random(20261116)
    index = MatchIndex(STOCK)
    present: dict[int, Condition] = {}
    for step in range(3_000):
        id = step % 1_500
        if id in present:
            index.remove(id)
            del present[id]
        if dice.random() < 0.9:
            present[id] = _random_condition(dice)
            index.add(id, present[id])
        if step % 100 == 99:
            row = _random_publication(dice)
            ordinals = STOCK.publication(row)
            assert matched(index, row) == sorted(id for id, each in present.items() if each.accepts(ordinals))
    assert len(index) == len(present)
    for id in present:
        index.remove(id)
    assert matched(index, {"symbol": "S1", "volume": 7}) == []


def test_many_thresholds_of_one_attribute_are_in_order():
    index = MatchIndex(STOCK)
    for id in range(10_000):
        index.add(id, stock(f"[class,eq,'STOCK'],[volume,{'>' if id % 2 else '<='},{id * 7919 % 10_000}]"))
    for id in range(0, 10_000, 3):
        index.remove(id)
    found = matched(index, {"class": "STOCK", "volume": 5_000})
    kept = [id for id in range(10_000) if id % 3]
    assert found == [id for id in kept if (id * 7919 % 10_000 < 5_000) == bool(id % 2)]


def test_memory_of_removed_conditions_is_used_again():
    index = MatchIndex(STOCK)
    for round in range(10):
        for id in range(200):
            symbol, name = f"[symbol,eq,'S{round}-{id}']", f"[class,str-prefix,'a{round}']"
            index.add(id, stock(f"{symbol},{name},[volume,>,{id}],[price,<,3]"))
        for id in range(200):
            index.remove(id)
        if round == 0:
            first = index.bytes
    assert index.bytes == first


def test_a_batch_gives_what_each_publication_gives():
    dice = random.Random(3)
    index = MatchIndex(STOCK)
    for id in range(500):
        index.add(id, _random_condition(dice))
    rows = [_random_publication(dice) for _ in range(40)]
    assert [sorted(found.tolist()) for found in index.match_batch(rows)] == [matched(index, row) for row in rows]


CITY = Attributes.of_columns([Column("lat", "double"), Column("lon", "decimal(9,6)"), Column("kind", "string")])


def test_circles_are_found_by_their_cells():
    dice = random.Random(5)
    edges = [(33.68, -117.82), (0.0, 179.9999), (-45.0, -180.0), (89.5, 10.0), (0.0, 0.0)]
    index = MatchIndex(CITY)
    present = {}
    for id in range(400):
        lat, lon = dice.choice(edges)
        reach = dice.choice([20, 500, 5_000, 2e6])
        lat, lon = lat + dice.uniform(-0.01, 0.01), lon + dice.uniform(-0.01, 0.01)
        text = f"within(lat, lon, {lat}, {lon}, {reach})"
        present[id] = Condition.of_sql(f"NOT {text}" if id % 20 == 0 else text, CITY)
        index.add(id, present[id])
    for _ in range(60):
        lat, lon = dice.choice(edges)
        shift = dice.choice([0, 360, -360])
        row = {"lat": lat + dice.uniform(-0.01, 0.01), "lon": round(lon + dice.uniform(-0.01, 0.01) + shift, 6)}
        row["lon"] = row["lon"] if abs(row["lon"]) <= 999 else lon
        assert matched(index, row) == [id for id, each in present.items() if each.matches(row)]


def test_an_id_is_added_once_and_removed_once():
    index = MatchIndex(STOCK)
    index.add(3, stock("volume > 3"))
    with pytest.raises(AlreadyExists):
        index.add(3, stock("volume > 4"))
    with pytest.raises(NotFound):
        index.remove(4)
    index.remove(3)
    with pytest.raises(NotFound):
        index.remove(3)
    assert 3 not in index


@pytest.mark.parametrize("id", [-1, 1 << 31])
def test_an_id_out_of_range_is_refused(id):
    with pytest.raises(LimitExceeded):
        MatchIndex(STOCK).add(id, stock("volume > 3"))


def test_a_condition_that_is_never_true_has_an_id_and_matches_nothing():
    index = MatchIndex(STOCK)
    index.add(0, stock("volume = NULL"))
    assert 0 in index and matched(index, {"volume": 3}) == []
    index.remove(0)
    assert len(index) == 0


def test_a_publication_that_does_not_fit_is_refused():
    with pytest.raises(UserError, match="there is no attribute"):
        MatchIndex(STOCK).match({"volum": 3})


@pytest.mark.parametrize("value", [-(1 << 63), -(1 << 63) + 1, (1 << 63) - 1])
def test_the_ends_of_a_bigint_are_values_like_others(value):
    texts = [f"volume {operator} {value}" for operator in ("=", "<>", "<", "<=", ">", ">=")]
    index = MatchIndex(STOCK)
    for id, text in enumerate(texts):
        index.add(id, stock(text))
    for volume in (-(1 << 63), -(1 << 63) + 1, 0, (1 << 63) - 1):
        row = {"volume": volume}
        assert matched(index, row) == [id for id, text in enumerate(texts) if stock(text).matches(row)]
