"""Terms as numbers: the order of the numbers is that of the terms."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tocsin.overlay.keyspace.can.terms import LENGTH, QUADRUPLES, SIZE, coordinate, point, span
from tocsin.overlay.keyspace.model.contact import inside

SHORT = st.text(max_size=6)
LONG = st.text(min_size=1, max_size=3).map(lambda text: text * LENGTH)


@given(SHORT, SHORT)
def test_the_order_of_terms_is_that_of_their_coordinates(one, other):
    assert (one < other) == (coordinate(one) < coordinate(other))
    assert 0 <= coordinate(one) < SIZE


@given(LONG, LONG)
def test_long_terms_are_never_in_the_wrong_order(one, other):
    if one < other:
        assert coordinate(one) <= coordinate(other)


def test_between_two_different_terms_there_is_a_middle():
    low, high = coordinate("http://example.org/a"), coordinate("http://example.org/b")
    assert low < (low + high) // 2 < high


def test_unusual_terms_are_inside_of_the_space():
    for term in ("", "\0", "\U0010ffff" * 200, "é", "\ud800"):
        assert all(inside(point((term,) * 4), (each,) * 4) for each in QUADRUPLES.box)


def test_a_pattern_selects_the_quadruples_with_its_fixed_terms():
    rng = Random(1)
    for _ in range(100):
        quadruple = tuple(rng.choice("abc") for _ in range(4))
        pattern = tuple(rng.choice(("a", "b", None)) for _ in range(4))
        wanted = all(term is None or term == own for term, own in zip(pattern, quadruple, strict=True))
        assert inside(point(quadruple), span(pattern)) == wanted
