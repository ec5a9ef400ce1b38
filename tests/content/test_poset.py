"""The poset: the thesis' worked examples, and a comparison with all pairs."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from content_strategies import ATTRIBUTES, conditions
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.cluster.model import Column
from tocsin.content import Advertisement, Attributes, Condition, Poset
from tocsin.content.poset import Node
from tocsin.errors import AlreadyExists, Conflict, NotFound

NEWS = Attributes.of_columns(
    [Column("class", "string"), Column("symbol", "string"), Column("type", "string"), Column("volume", "bigint")]
)
#: §2.1.2: the five subscriptions of a broker.
FIVE = [
    "[class,eq,'STOCK']",
    "[class,eq,'STOCK'],[symbol,eq,'YHOO']",
    "[class,eq,'STOCK'],[volume,>,1000]",
    "[class,eq,'SPORTS']",
    "[class,eq,'SPORTS'],[type,eq,'RACING']",
]


def news(text: str) -> Condition:
    return Condition.parse(text, NEWS)


def texts(nodes: Iterable[Node]) -> set[str]:
    return {node.condition.to_padres() for node in nodes}


@pytest.mark.parametrize("seed", range(5))
def test_five_subscriptions_have_two_in_the_covering_set_in_any_order(seed):
    poset = Poset(NEWS)
    for text in random.Random(seed).sample(FIVE, 5):
        poset.insert(text, news(text))
    assert texts(poset.css) == {FIVE[0], FIVE[3]}


def test_the_poset_of_figure_2_1_has_the_covered_subscriptions_below_their_topic():
    poset = Poset(NEWS)
    for text in FIVE:
        poset.insert(text, news(text))
    below = {text: texts(poset.node_of(text).children.values()) for text in FIVE}
    assert below == {FIVE[0]: {FIVE[1], FIVE[2]}, FIVE[1]: set(), FIVE[2]: set(), FIVE[3]: {FIVE[4]}, FIVE[4]: set()}
    assert texts(poset.node_of(FIVE[4]).parents.values()) == {FIVE[3]}


def test_a_subscription_may_have_several_parents_and_is_no_child_of_their_parent():
    poset = Poset(NEWS)
    both = "[class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,5000]"
    for text in (both, *FIVE):
        poset.insert(text, news(text))
    assert texts(poset.node_of(both).parents.values()) == {FIVE[1], FIVE[2]}
    assert texts(poset.node_of(FIVE[0]).children.values()) == {FIVE[1], FIVE[2]}


def test_equal_subscriptions_are_one_node_with_its_subscribers():
    poset = Poset(NEWS)
    assert poset.insert("a", news("volume > 3")).is_new
    assert not poset.insert("b", news("volume >= 4")).is_new
    assert list(poset.node_of("a").subscribers) == ["a", "b"]
    assert not poset.remove("a").is_last
    assert poset.remove("b").is_last
    assert len(poset) == 0


def test_an_insertion_names_what_it_removes_from_the_covering_set():
    poset = Poset(NEWS)
    assert not poset.insert(1, news(FIVE[1])).covered
    assert not poset.insert(2, news(FIVE[2])).covered
    inserted = poset.insert(0, news(FIVE[0]))
    assert texts(inserted.demoted) == {FIVE[1], FIVE[2]}
    assert poset.insert(3, news("class = 'STOCK' AND symbol = 'IBM'")).covered


def test_a_removal_names_what_has_to_be_forwarded_first():
    poset = Poset(NEWS)
    for number, text in enumerate(FIVE):
        poset.insert(number, news(text))
    removed = poset.remove(0)
    assert texts(removed.exposed) == {FIVE[1], FIVE[2]}
    assert texts(poset.css) == {FIVE[1], FIVE[2], FIVE[3]}


def test_a_condition_that_is_never_true_is_covered_and_covers_nothing():
    poset = Poset(NEWS)
    inserted = poset.insert("never", news("volume = NULL"))
    assert inserted.covered and inserted.is_new
    poset.insert("some", news(FIVE[0]))
    assert texts(poset.css) == {FIVE[0]}
    poset.remove("never")
    assert len(poset) == 1


def test_a_subscription_is_inserted_once_and_removed_once():
    poset = Poset(NEWS)
    poset.insert("a", news(FIVE[0]))
    with pytest.raises(AlreadyExists):
        poset.insert("a", news(FIVE[1]))
    with pytest.raises(NotFound):
        poset.remove("b")


def test_conditions_on_other_types_are_refused():
    with pytest.raises(Conflict):
        Poset(NEWS).insert("a", Condition.of_sql("volume > '3'", Attributes.of_columns([Column("volume", "string")])))


# -- figure 2.2: a publisher at B1 advertises a > 1, sub1 at B4 has a > 5, sub2 at B3 has a > 9


class Router:
    """A broker of figure 2.2: a poset for each neighbour says which subscriptions to forward to it."""

    def __init__(self, name: str, network: dict[str, Router], neighbours: Iterable[str]) -> None:
        self.name = name
        self.network = network
        self.neighbours = list(neighbours)
        self.advertised: dict[str, Advertisement] = {}
        #: The publication routing table: next hop and filter.
        self.table: list[tuple[str, str]] = []
        self.forwarded: dict[str, Poset] = {}
        self.log: list[str] = []
        network[name] = self

    def advertise(self, advertisement: Advertisement, source: str) -> None:
        self.advertised[source] = advertisement
        for each in self.neighbours:
            if each != source:
                self.network[each].advertise(advertisement, self.name)

    def subscribe(self, id: str, condition: Condition, source: str) -> None:
        self.log.append(f"subscribe {id}")
        self.table.append((source, condition.to_padres()))
        for hop in self._towards(condition, source):
            poset = self.forwarded.setdefault(hop, Poset(condition.attributes))
            if not poset.insert(id, condition).covered:
                self.network[hop].subscribe(id, condition, self.name)

    def unsubscribe(self, id: str, condition: Condition, source: str) -> None:
        self.log.append(f"unsubscribe {id}")
        self.table.remove((source, condition.to_padres()))
        for hop in self._towards(condition, source):
            poset = self.forwarded[hop]
            was_forwarded = poset.node_of(id) in poset.css
            for node in poset.remove(id).exposed:
                for subscriber in node.subscribers:
                    self.network[hop].subscribe(str(subscriber), node.condition, self.name)
            if was_forwarded:
                self.network[hop].unsubscribe(id, condition, self.name)

    def _towards(self, condition: Condition, source: str) -> list[str]:
        """The reverse path of the advertisements that intersect it; publishers receive nothing."""
        sources = [each for each, advertisement in self.advertised.items() if advertisement.intersects(condition)]
        return [each for each in sources if each in self.network and each != source]

    def publish(self, publication: dict[str, object], source: str) -> set[str]:
        """The subscribers that receive it, through all brokers."""
        attributes = next(iter(self.advertised.values())).attributes
        reached = set()
        for hop in {hop for hop, text in self.table if Condition.parse(text, attributes).matches(publication)} - {
            source
        }:
            reached |= self.network[hop].publish(publication, self.name) if hop in self.network else {hop}
        return reached


@pytest.fixture
def figure() -> dict[str, Router]:
    """B1 – B2, B2 – B3, B2 – B4, after steps 1 to 3."""
    network: dict[str, Router] = {}
    for name, neighbours in {"B1": ["B2"], "B2": ["B1", "B3", "B4"], "B3": ["B2"], "B4": ["B2"]}.items():
        Router(name, network, neighbours)
    advertisement = Advertisement.of_padres("[a,>,1]")
    network["B1"].advertise(advertisement, "publisher")
    for broker, id, text in (("B4", "sub1", "[a,>,5]"), ("B3", "sub2", "[a,>,9]")):
        network[broker].subscribe(id, Condition.of_padres(text, advertisement.attributes), id)
    return network


def test_step_1_of_figure_2_2_floods_the_advertisement(figure):
    sources = {name: list(router.advertised) for name, router in figure.items()}
    assert sources == {"B1": ["publisher"], "B2": ["B1"], "B3": ["B2"], "B4": ["B2"]}


def test_steps_2_and_3_of_figure_2_2_fill_the_tables_and_stop_at_the_covering_subscription(figure):
    assert {name: router.table for name, router in figure.items()} == {
        "B1": [("B2", "[a,>,5]")],
        "B2": [("B4", "[a,>,5]"), ("B3", "[a,>,9]")],
        "B3": [("sub2", "[a,>,9]")],
        "B4": [("sub1", "[a,>,5]")],
    }


@pytest.mark.parametrize(("value", "reached"), [(10, {"sub1", "sub2"}), (9, {"sub1"}), (5, set())])
def test_step_4_of_figure_2_2_delivers_to_both_subscribers(figure, value, reached):
    assert figure["B1"].publish({"a": value}, "publisher") == reached


def test_an_unsubscription_forwards_the_covered_subscription_first(figure):
    condition = Condition.of_padres("[a,>,5]", figure["B1"].advertised["publisher"].attributes)
    figure["B1"].log.clear()
    figure["B4"].unsubscribe("sub1", condition, "sub1")
    assert figure["B1"].log == ["subscribe sub2", "unsubscribe sub1"]
    assert figure["B1"].table == [("B2", "[a,>,9]")]
    assert figure["B4"].table == []
    assert figure["B1"].publish({"a": 10}, "publisher") == {"sub2"}


# -- advertisements


def test_covered_advertisements_are_below_the_one_that_covers_them():
    wide = Advertisement.of_padres("[class,eq,*],[volume,>,0]")
    narrow = Advertisement.of_padres("[class,eq,'STOCK'],[volume,>,1000]")
    other = Advertisement.of_padres("[class,eq,'STOCK'],[volume,>,1000],[open,isPresent,0]")
    attributes = Attributes([*wide.attributes, *other.attributes])
    poset = Poset(attributes)
    for number, each in enumerate((narrow, other, wide)):
        poset.insert(number, each)
    assert [node.condition for node in poset.css] == [other, wide]
    assert [node.condition for node in poset.node_of(2).children.values()] == [narrow]


# -- all pairs


def naive(nodes: dict[str, Condition]) -> tuple[set[str], set[tuple[str, str]]]:
    """The covering set, and parent and child of the transitive reduction, by comparing everything with everything."""
    above = {(a, b) for a in nodes for b in nodes if a != b and nodes[a].covers(nodes[b])}
    edges = {(a, b) for a, b in above if not any((a, c) in above and (c, b) in above for c in nodes)}
    return {b for b in nodes if not any(second == b for _, second in above)}, edges


def below(node: Node) -> list[frozenset[object]]:
    return [child.condition.key for child in node.children.values()]


def _drawn(dice: random.Random) -> Condition:
    parts = dice.sample(
        [
            f"[class,eq,'{dice.choice('AB')}']",
            f"[symbol,eq,'{dice.choice('XYZ')}']",
            f"[symbol,str-prefix,'{dice.choice('XY')}']",
            f"[volume,>,{dice.randrange(5)}]",
            f"[volume,<,{dice.randrange(4, 9)}]",
            "[type,isPresent,'']",
        ],
        dice.randint(1, 3),
    )
    return news(",".join(parts))


@pytest.mark.parametrize("seed", range(3))
def test_the_poset_is_what_comparing_everything_gives_after_each_of_many_changes(seed):
    dice = random.Random(seed)
    poset = Poset(NEWS)
    present: dict[int, Condition] = {}
    for step in range(120):
        if present and dice.random() < 0.35:
            gone = dice.choice(list(present))
            poset.remove(gone)
            del present[gone]
        else:
            present[step] = _drawn(dice)
            poset.insert(step, present[step])
        if step % 4 == 0:
            unique = {
                each.to_padres(): each for each in {each.key: each for each in present.values() if each.terms}.values()
            }
            name = {each.key: text for text, each in unique.items()}
            css, edges = naive(unique)
            assert {name[node.condition.key] for node in poset.css} == css
            found = {
                (name[node.condition.key], name[child.condition.key])
                for node in poset
                for child in node.children.values()
            }
            assert found == edges


@settings(max_examples=25)
@given(st.lists(conditions(3), min_size=6, max_size=14), st.randoms(use_true_random=False))
def test_every_condition_is_at_or_below_one_of_the_covering_set(several, dice):
    poset = Poset(ATTRIBUTES)
    present = {}
    for number, condition in enumerate(several):
        poset.insert(number, condition)
        present[number] = condition
        if dice.random() < 0.3:
            gone = dice.choice(list(present))
            poset.remove(gone)
            del present[gone]
    reached = {node.number for node in poset.css}
    waiting = list(poset.css)
    while waiting:
        for child in waiting.pop().children.values():
            if child.number not in reached:
                reached.add(child.number)
                waiting.append(child)
    assert reached == {node.number for node in poset if node.condition.terms}
    # No condition of the covering set is covered by another, as far as a comparison shows.
    for one in poset.css:
        assert not any(other is not one and other.condition.covers(one.condition) for other in poset.css)


def test_an_insertion_is_not_compared_with_all_nodes():
    dice = random.Random(7)
    poset = Poset(NEWS)
    for number in range(600):
        symbol, volume = dice.randrange(100), dice.randrange(1_000_000)
        text = f"[class,eq,'STOCK'],[symbol,eq,'S{symbol}']" + (f",[volume,>,{volume}]" if number % 3 else "")
        poset.insert(number, news(text))
    before = poset.comparisons
    poset.insert("new", news("[class,eq,'STOCK'],[symbol,eq,'S7'],[volume,>,500000]"))
    assert poset.comparisons - before < 20
