from __future__ import annotations

from collections import Counter
from itertools import islice

from tocsin.experiments.antoine2014.quadruples import generate, items
from tocsin.overlay.keyspace.can.terms import point


def test_the_same_seed_gives_the_same_quadruples():
    assert list(generate(20, 1)) == list(generate(20, 1)) != list(generate(20, 2))


def test_a_tweet_has_ten_quadruples_with_one_graph_and_ten_predicates():
    tweet = list(islice(generate(5, 1), 10))
    assert len({graph for graph, *_ in tweet}) == 1
    assert len({predicate for _, _, predicate, _ in tweet}) == 10
    assert Counter(subject.count("/status/") for _, subject, _, _ in tweet) == {1: 7, 0: 3}


def test_terms_share_prefixes_and_are_skewed():
    found = list(generate(500, 1))
    assert all(graph.startswith("http://events.example.org/twitter/463") for graph, *_ in found)
    assert all(each.startswith(("http://", '"')) for quadruple in found for each in quadruple)
    authors = Counter(object for _, _, predicate, object in found if predicate.endswith("has_creator"))
    assert authors.most_common(1)[0][1] > 20 * 500 / 2_000


def test_an_item_weighs_its_characters():
    first, quadruple = items(1, 1)[0], next(generate(1, 1))
    assert first.size == sum(map(len, quadruple)) and first.point == point(quadruple)
