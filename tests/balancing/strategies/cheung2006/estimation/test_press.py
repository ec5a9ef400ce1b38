"""T39, T40: Table 4.1 and equations 4.1 to 4.6, to the bit."""

from __future__ import annotations

import pytest

from tocsin.balancing.strategies.cheung2006.estimation.press import Press, Profile, and_not, text, union
from tocsin.content import Attribute, Attributes, Condition
from tocsin.content.language.domains import domain_of

ATTRIBUTES = Attributes(
    Attribute(name, domain_of(kind)) for name, kind in {"class": "string", "volume": "bigint", "type": "string"}.items()
)
PUBLICATIONS = [
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
]
CANDIDATES = [
    "[class,eq,'STOCK']",
    "[class,eq,'STOCK'],[volume,>,15]",
    "[class,eq,'STOCK'],[volume,>,150]",
    "[class,eq,'SPORTS']",
]
ACCEPTING = ["[class,eq,'STOCK'],[volume,>,50]", "[class,eq,'STOCK'],[volume,<,5]", "[class,eq,'MOVIES']"]


@pytest.fixture
def profile() -> Profile:
    """Three publications a second, for two seconds."""
    conditions = [Condition.of_padres(each, ATTRIBUTES) for each in CANDIDATES + ACCEPTING]
    press = Press([4, 5, 6], samples=6, timeout=30.0, now=10.0)
    for publication in PUBLICATIONS:
        press.enqueue(100)
        press.observe(number for number, each in enumerate(conditions) if each.matches(publication))
    assert press.complete
    return press.profile(12.0)


def test_the_vectors_of_table_4_1(profile):
    found = [text(profile.vector(number), 6) for number in range(7)]
    assert found == ["110111", "110100", "100000", "001000", "110000", "000001", "000000"]


def test_the_equations_of_the_example(profile):
    stock = profile.vector(0)
    assert profile.rate == 3.0 and profile.size == 100.0
    assert profile.rate_of(stock) == pytest.approx(2.5)  # 4.2
    assert text(profile.accepting, 6) == text(union([0b110000, 0b000001, 0]), 6) == "110001"  # 4.3
    assert text(and_not(stock, profile.accepting), 6) == "000110"  # 4.4
    assert profile.rate_of(and_not(stock, profile.accepting)) == pytest.approx(1.0)  # 4.5
    # 4.6 is printed with seven bits.
    assert text(union([stock, profile.accepting]), 6) == "110111"


def test_sampling_ends_after_n_publications():
    press = Press([], samples=2, timeout=30.0, now=0.0)
    for matched in ([0], [1], [0]):
        press.observe(matched)
    found = press.profile(1.0)
    assert found.samples == 2 and (found.vector(0), found.vector(1)) == (0b01, 0b10)


def test_a_time_out_leaves_the_samples_that_there_are():
    press = Press([], samples=50, timeout=30.0, now=0.0)
    press.enqueue(10)
    press.observe([3])
    assert not press.complete and press.until == 30.0
    assert press.profile(2.0).rate_of(1) == pytest.approx(0.5)


def test_without_a_publication_every_rate_is_0():
    found = Press([1], samples=50, timeout=30.0, now=0.0).profile(0.0)
    assert found.rate_of(0b1) == 0.0 and found.size == 0.0 and found.vector(1) == 0
