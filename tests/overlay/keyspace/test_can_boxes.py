"""Boxes of a CAN's space: distances, contact, and what is not covered."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tocsin.overlay.keyspace.can.boxes import Space, meet, remainder, volume
from tocsin.overlay.keyspace.model.contact import inside

PLANE, TORUS = Space(2, 16, torus=False), Space(2, 16)


def boxes(rng: Random, count: int):
    for _ in range(count):
        yield tuple(tuple(sorted(rng.sample(range(17), 2))) for _ in range(2))


def literal(space: Space, point, box) -> int:
    """The steps of a walk to the nearest key of the box."""
    best = []
    for x, (low, high) in zip(point, box, strict=True):
        gaps = [abs(x - y) for y in range(low, high)]
        if space.torus:
            gaps = [min(gap, space.size - gap) for gap in gaps]
        best.append(min(gaps))
    return sum(best)


@pytest.mark.parametrize("space", [PLANE, TORUS])
def test_the_distance_to_a_box_is_that_to_its_nearest_key(space):
    rng = Random(1)
    for box in boxes(rng, 200):
        point = (rng.randrange(16), rng.randrange(16))
        assert space.distance(point, box) == literal(space, point, box)


@pytest.mark.parametrize("space", [PLANE, TORUS])
def test_boxes_touch_if_a_key_of_one_is_beside_a_key_of_the_other(space):
    rng = Random(2)
    for a, b in zip(boxes(rng, 150), boxes(rng, 150), strict=True):
        keys = [key for key in product(range(16), range(16)) if inside(key, a)]
        assert space.touch(a, b) == any(space.distance(key, b) <= 1 for key in keys)


def test_on_a_torus_the_last_column_touches_the_first():
    left, right = ((0, 2), (0, 16)), ((14, 16), (0, 16))
    assert TORUS.touch(left, right) and not PLANE.touch(left, right)


def test_the_remainder_has_exactly_the_keys_that_are_not_covered():
    rng = Random(3)
    for box in boxes(rng, 40):
        covers = list(boxes(rng, 3))
        left = remainder([box], covers)
        within = [key for key in product(range(16), range(16)) if inside(key, box)]
        wanted = {key for key in within if not any(inside(key, cover) for cover in covers)}
        assert {key for piece in left for key in product(*(range(low, high) for low, high in piece))} == wanted
        assert sum(map(volume, left)) == len(wanted)


def test_a_key_beside_a_box_that_no_neighbour_covers_is_found():
    box, above, right = ((0, 8), (0, 8)), ((0, 8), (8, 16)), ((8, 16), (0, 4))
    found = PLANE.uncovered([box], [above, right])
    assert found is not None and found[0] == 8 and 4 <= found[1] < 8
    assert PLANE.uncovered([box], [above, right, ((8, 16), (4, 16))]) is None


def test_boxes_that_only_touch_do_not_meet():
    assert not meet(((0, 4), (0, 4)), ((4, 8), (0, 4)))
    assert meet(((0, 4), (0, 4)), ((3, 8), (3, 4)))
