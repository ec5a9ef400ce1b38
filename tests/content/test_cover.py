"""Covering and intersection, against every publication of a small world."""

from __future__ import annotations

import itertools

import pytest
from content_strategies import conditions
from content_strategies import publications as large_publications
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.cluster.model import Column
from tocsin.content import Advertisement, Attributes, Condition
from tocsin.content.language import expressions as ex
from tocsin.errors import Conflict

SMALL = Attributes.of_columns([Column("a", "boolean"), Column("b", "decimal(1,0)"), Column("c", "boolean", False)])
#: Every publication that there can be.
WORLD = [
    {"a": a, "b": b, "c": c}
    for a, b, c in itertools.product([None, True, False], [None, *range(-9, 10)], [True, False])
]
ORDINALS = [SMALL.publication(each) for each in WORLD]
LITERALS = {"a": [True, False], "b": [*range(-9, 10, 3), 2.5], "c": [True, False]}


@st.composite
def comparisons(draw: st.DrawFn, names: str = "abbbc") -> ex.Expression:
    name = draw(st.sampled_from(names))
    value = st.sampled_from(LITERALS[name])
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return ex.Membership(name, tuple(draw(st.lists(value, min_size=1, max_size=3))))
    if kind == 1:
        return ex.Between(name, draw(value), draw(value))
    if kind == 2:
        return draw(st.sampled_from([ex.Present(name), ex.Not(ex.Present(name))]))
    return ex.Comparison(name, draw(st.sampled_from(list(ex.MIRRORED))), draw(value))


def conjunctions(names: str = "abbbc") -> st.SearchStrategy[Condition]:
    several = st.lists(comparisons(names), min_size=1, max_size=4)
    return several.map(lambda parts: Condition(ex.conjunction(parts), SMALL))


def space(condition: Condition) -> set[int]:
    return {number for number, each in enumerate(ORDINALS) if condition.accepts(each)}


@settings(max_examples=examples(500))
@given(conjunctions(), conjunctions())
def test_covering_of_conjunctions_is_exact(one, other):
    assert one.covers(other) == (space(one) >= space(other))


@settings(max_examples=examples(500))
@given(conjunctions(), conjunctions())
def test_intersection_of_conjunctions_is_exact(one, other):
    assert one.intersects(other) == bool(space(one) & space(other))


@settings(max_examples=examples(200))
@given(conjunctions())
def test_a_conjunction_without_publications_has_no_terms(condition):
    assert bool(condition.terms) == bool(space(condition))


@settings(max_examples=examples(300))
@given(st.lists(conjunctions(), min_size=2, max_size=3), conjunctions())
def test_covering_and_intersection_of_disjunctions_are_safe(several, other):
    joined = Condition(ex.disjunction([each.expression for each in several]), SMALL)
    if joined.covers(other):
        assert space(joined) >= space(other)
    if other.covers(joined):
        assert space(other) >= space(joined)
    assert joined.intersects(other) == bool(space(joined) & space(other))


@settings(max_examples=examples(300))
@given(conditions(4), conditions(4), st.lists(large_publications(), min_size=6, max_size=6))
def test_patterns_and_circles_are_safe(one, other, publications):
    accepted = [(one.matches(each), other.matches(each)) for each in publications]
    if one.covers(other):
        assert not any(second and not first for first, second in accepted)
    if not one.intersects(other):
        assert not any(first and second for first, second in accepted)


PLACES = Attributes.of_columns([Column("t", "string"), Column("lat", "double"), Column("lon", "double")])


@pytest.mark.parametrize(
    ("general", "special"),
    [
        ("t LIKE '%b%'", "t LIKE '%abc%'"),
        ("t LIKE '%b%'", "t LIKE 'ab%'"),
        ("t LIKE '%c'", "t LIKE 'a%bc'"),
        ("t LIKE '%b%'", "t IN ('abc', 'b')"),
        ("t LIKE 'a%c'", "t LIKE 'a_c'"),
        ("t LIKE 'a_%'", "t LIKE 'ab%'"),
        ("t >= 'a'", "t LIKE 'a%z'"),
        ("t NOT LIKE '%b%'", "t NOT LIKE '%b%' AND t > 'c'"),
        ("t NOT LIKE '%abc'", "t NOT LIKE '%bc'"),
        ("t NOT LIKE 'x%'", "t LIKE 'a%b'"),
        ("within(lat, lon, 1, 2, 500)", "within(lat, lon, 1.001, 2, 300)"),
        ("lat IS NOT NULL", "within(lat, lon, 1, 2, 500)"),
        ("lat < 2", "within(lat, lon, 1, 2, 500)"),
        ("NOT within(lat, lon, 1, 2, 300)", "NOT within(lat, lon, 1, 2, 500)"),
        ("NOT within(lat, lon, 1, 2, 300)", "within(lat, lon, 2, 2, 500)"),
        ("t IS NULL OR t IS NOT NULL", "lat > 3"),
        ("lat > 3", "FALSE"),
    ],
)
def test_a_condition_covers_a_narrower_one_and_not_the_other_way(general, special):
    one, other = Condition.of_sql(general, PLACES), Condition.of_sql(special, PLACES)
    assert one.covers(other)
    assert not other.covers(one)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("t LIKE 'a%'", "t LIKE '%z'", True),
        ("t LIKE 'a%'", "t LIKE 'b%'", False),
        ("t LIKE '%y'", "t LIKE '%z'", False),
        ("t = 'abc'", "t LIKE '%d%'", False),
        ("within(lat, lon, 1, 2, 500)", "within(lat, lon, 1.001, 2, 500)", True),
        ("within(lat, lon, 1, 2, 500)", "within(lat, lon, 1.1, 2, 500)", False),
        ("within(lat, lon, 1, 2, 500)", "lat > 3", False),
    ],
)
def test_patterns_and_circles_that_cannot_meet_do_not_intersect(one, other, together):
    assert Condition.of_sql(one, PLACES).intersects(Condition.of_sql(other, PLACES)) == together


def test_conditions_on_different_types_are_not_compared():
    number, text = Attributes.of_columns([Column("a", "int")]), Attributes.of_columns([Column("a", "string")])
    with pytest.raises(Conflict, match="a is of type int in one and string in the other"):
        Condition.of_sql("a > 3", number).covers(Condition.of_sql("a > '3'", text))


# -- advertisements: attributes that are not declared are null

DECLARED = {"ab": Attributes([SMALL["a"], SMALL["b"]]), "b": Attributes([SMALL["b"]])}


@st.composite
def advertisements(draw: st.DrawFn) -> Advertisement:
    names = draw(st.sampled_from(list(DECLARED)))
    parts = draw(st.lists(comparisons(names), min_size=1, max_size=3))
    return Advertisement(Condition(ex.conjunction(parts), DECLARED[names]))


def announced(advertisement: Advertisement) -> set[int]:
    return {
        number
        for number, each in enumerate(ORDINALS)
        if all(advertisement.attributes.find(name) for name in each if name != "c")
        and advertisement.condition.accepts(each)
    }


@settings(max_examples=examples(200))
@given(advertisements(), advertisements())
def test_covering_of_advertisements_is_exact(one, other):
    assert one.covers(other) == (announced(one) >= announced(other))


@settings(max_examples=examples(200))
@given(advertisements(), conjunctions("ab"))
@example(Advertisement(Condition.of_sql("b > 1", DECLARED["b"])), Condition.of_sql("a = TRUE OR a IS NULL", SMALL))
def test_an_advertisement_intersects_the_subscriptions_that_get_some_of_its_publications(advertisement, subscription):
    assert advertisement.intersects(subscription) == bool(announced(advertisement) & space(subscription))


def test_an_advertisement_does_not_intersect_a_subscription_to_an_attribute_it_lacks():
    advertisement = Advertisement.of_padres("[class,eq,'STOCK'],[volume,isPresent,0]")
    wider = Advertisement.of_padres("[class,eq,'STOCK'],[volume,isPresent,0],[open,isPresent,0]").attributes
    assert advertisement.intersects(Condition.of_padres("[volume,>,3]", wider))
    assert not advertisement.intersects(Condition.of_padres("[open,>,3]", wider))
    assert not advertisement.intersects(Condition.of_padres("[class,eq,'SPORTS']", wider))
