"""The tree of cuts: its leaves in order, and the zones between two of them."""

from __future__ import annotations

from itertools import product
from random import Random

from tocsin.overlay.keyspace.can.boxes import Space, meet, volume
from tocsin.overlay.keyspace.can.zones import ZoneOrder, contradicts, fitted, position
from tocsin.overlay.keyspace.model.contact import Contact, Region, Step, inside
from tocsin.overlay.keyspace.model.order import owns

SPACE = Space(2, 16, torus=False)
ORDER = ZoneOrder(SPACE)


def leaves(rng: Random, count: int) -> list[tuple[Step, ...]]:
    """Of a tree with cuts at random places."""
    found = [()]
    while len(found) < count:
        leaf = rng.choice(found)
        dimension = len(leaf) % 2
        low, high = ORDER.box(leaf)[dimension]
        if high - low > 1:
            cut = rng.randrange(low + 1, high)
            found.remove(leaf)
            found += [(*leaf, Step(dimension, cut, False)), (*leaf, Step(dimension, cut, True))]
    return sorted(found, key=position)


def contacts(paths) -> list[Contact]:
    return [Contact(position(leaf), 0, f"m{number}", "p", leaf) for number, leaf in enumerate(paths)]


def regions(members: list[Contact]) -> list[Region]:
    return [Region(one, after) for one, after in zip(members, members[1:] + members[:1], strict=True)]


def test_zones_of_all_members_are_a_partition_of_the_space():
    for seed in range(20):
        zones = [ORDER.boxes(each) for each in regions(contacts(leaves(Random(seed), 9)))]
        assert sum(volume(box) for zone in zones for box in zone) == volume(SPACE.box)


def test_the_zone_of_a_missing_member_goes_to_the_one_before_it():
    """Also that of the first, of the last, and of several in a row."""
    for seed in range(30):
        rng = Random(seed)
        members = contacts(leaves(rng, 9))
        left = sorted(rng.sample(members, rng.randint(1, 6)), key=lambda each: each.rank)
        zones = [ORDER.boxes(each) for each in regions(left)]
        boxes = [box for zone in zones for box in zone]
        assert sum(map(volume, boxes)) == volume(SPACE.box)
        assert not any(meet(a, b) for place, a in enumerate(boxes) for b in boxes[:place])


def test_a_key_is_owned_by_the_member_whose_zone_contains_it():
    for seed in range(10):
        rng = Random(seed)
        members = sorted(rng.sample(contacts(leaves(rng, 8)), 4), key=lambda each: each.rank)
        for region in regions(members):
            for key in product(range(16), range(16)):
                assert owns(ORDER, region, key) == any(inside(key, box) for box in ORDER.boxes(region))


def test_a_member_whose_sibling_is_missing_has_one_box_again():
    low, high = (Step(0, 8, False),), (Step(0, 8, True), Step(1, 4, False))
    other = (Step(0, 8, True), Step(1, 4, True))
    first, second, third = contacts([low, high, other])
    assert ORDER.boxes(Region(second, first)) == (((8, 16), (0, 4)), ((8, 16), (4, 16)))
    assert ORDER.boxes(Region(fitted(Region(second, first)), first)) == (((8, 16), (0, 16)),)
    assert fitted(Region(second, third)) is second


def test_a_member_learns_the_cuts_of_one_that_begins_inside_of_its_leaf():
    whole, inner = contacts([(), (Step(0, 8, True), Step(1, 4, True))])
    region = Region(whole, inner)
    assert fitted(region).leaf == (Step(0, 8, False),)
    assert ORDER.boxes(Region(fitted(region), inner)) == (((0, 8), (0, 16)), ((8, 16), (0, 4)))


def test_of_two_different_cuts_of_one_box_exactly_one_counts():
    one, other = (Step(0, 8, False), Step(1, 3, True)), (Step(0, 8, False), Step(1, 9, False))
    assert contradicts(other, one) and not contradicts(one, other)
    assert not contradicts(one, one)
    assert not contradicts((Step(0, 8, True), Step(1, 5, True)), one)
