"""T58, T59: publishers, and subscribers from the six templates of Table 5.1."""

from __future__ import annotations

from collections import Counter

import pytest

from tocsin.content import Condition
from tocsin.errors import UserError
from tocsin.simulation.content.workload.quotes import ATTRIBUTES
from tocsin.simulation.edges.matches import Matches
from tocsin.simulation.edges.workload import TEMPLATES, Size, generate

SMALL = Size(publishers=8, subscribers=400, seconds=2_000.0)


@pytest.fixture(scope="module")
def workload():
    return generate(SMALL, 1)


@pytest.fixture(scope="module")
def matches(workload):
    return Matches(workload)


def test_templates_add_up():
    assert [share for share, _ in TEMPLATES] == [20, 20, 20, 34, 5, 1] and sum(share for share, _ in TEMPLATES) == 100


def test_no_stock_has_two_publishers_and_rates_are_up_to_one_a_second(workload):
    assert len({each.symbol for each in workload.publishers}) == 8
    assert all(0.0 <= each.rate <= 60.0 for each in workload.publishers)
    assert sum(each.faster for each in workload.publishers) == 4
    assert [each.at for each in workload.publishers] == pytest.approx([5.0 + 0.1 * n for n in range(8)])


def test_subscribers_join_in_the_given_time(workload):
    times = [each.at for each in workload.subscribers]
    assert times == sorted(times) and times[0] >= 10.0 and times[-1] <= 1_010.0 and len(times) == 400


def test_a_quarter_gets_nothing(workload, matches):
    matched = {number for quotes in matches.quotes.values() for quote in quotes for number in quote.matched.tolist()}
    without = [each for each in workload.subscribers if each.subscription not in matched]
    # A template's bound may happen to be the largest value of its stock.
    assert 100 <= len(without) <= 110


def test_shares_of_the_templates():
    found = Counter()
    for each in (workload := generate(Size(subscribers=4_000, zero=0.0, seconds=2_000.0), 2)).subscribers:
        text = workload.subscriptions[each.subscription]
        kind = next(name for name in ("high", "low", "volume", "symbol", "class") if name in text)
        found[f"{kind} of one" if kind == "volume" and "symbol" in text else kind] += 1
    shares = {name: count / 40 for name, count in found.items()}
    expected = {"high": 20, "low": 20, "volume of one": 20, "symbol": 34, "volume": 5, "class": 1}
    assert shares == pytest.approx(expected, abs=2.5)


def test_matches_are_those_of_the_conditions(workload, matches):
    conditions = [Condition.of_padres(text, ATTRIBUTES) for text in workload.subscriptions]
    for symbol, quotes in list(workload.quotes.items())[:3]:
        for place in (0, 7, 131):
            plain = [number for number, each in enumerate(conditions) if each.matches(quotes[place])]
            found = matches.quotes[symbol][place]
            assert found.matched.tolist() == plain
            assert found.bits == sum(1 << number for number in plain)


def test_covering_is_that_of_the_conditions(workload, matches):
    conditions = [Condition.of_padres(text, ATTRIBUTES) for text in workload.subscriptions[:60]]
    covering = matches.covering()
    for one, condition in enumerate(conditions):
        plain = [n for n, other in enumerate(conditions) if n != one and other.covers(condition)]
        assert [n for n in range(60) if covering.above[one] >> n & 1] == plain


def test_the_same_seed_gives_the_same_workload(workload):
    assert generate(SMALL, 1) == workload != generate(SMALL, 2)


@pytest.mark.parametrize(
    "wrong", [{"publishers": 0}, {"subscribers": -1}, {"zero": 1.5}, {"seconds": 500.0}, {"join_from": 2_000.0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(UserError):
        Size(**wrong)
