"""Makes the streets of a city out of a seed: crooked lanes, grids, suburbs, a river with bridges, avenues, a ring.

Every district is sown with crossings in its own pattern; neighbours are joined where no third crossing lies in the
circle between them (a Gabriel graph: it leaves a grid a grid, and makes lanes out of what is scattered). Avenues, ring
and bridges are drawn first and have their crossings before anything else is sown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.demo.city.districts import District, district_of, districts
from tocsin.demo.city.ground import HEIGHT, WIDTH, Points, stream

Edges = NDArray[np.int64]

KINDS = ("lane", "street", "avenue", "bridge")
LANE, STREET, AVENUE, BRIDGE = range(4)

#: Half of the river's width, and how far streets stay away from its middle.
RIVER, BANK = 55.0, 80.0
#: Metres between crossings of an avenue.
STEP = 105.0
#: Longest street between two crossings.
LONGEST = 420.0
NEIGHBOURS = 12


class Streets:
    """``points``: crossings. ``edges``: pairs of them; ``kinds`` and ``lengths`` belong to edges.

    ``starts`` and ``ends``: the neighbours of crossing n are ``ends[starts[n]:starts[n + 1]]``.
    """

    def __init__(self, seed: int) -> None:
        rng = stream(seed, "streets")
        self.seed = seed
        self.river = _river(rng)
        self.middle = _middle(self.river)
        self.districts: list[District] = districts(seed, self.middle)
        lines = _lines(rng, self.middle, self.river)
        points, edges, kinds = _draw(lines, self.river)
        sown = _sow(rng, self.districts, self.river, points)
        points = np.concatenate([points, sown])
        edges, kinds = _join(points, edges, kinds, self.river, self.districts)
        self.points, self.edges, self.kinds = _connected(points, edges, kinds)
        self.lengths = np.hypot(*(self.points[self.edges[:, 0]] - self.points[self.edges[:, 1]]).T)
        self.district = district_of(self.points, self.districts)
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        order = np.lexsort((both[:, 1], both[:, 0]))
        self.ends = both[order, 1]
        self.weights = np.concatenate([self.lengths, self.lengths])[order]
        self.starts = np.searchsorted(both[order, 0], np.arange(len(self.points) + 1))

    def neighbours(self, crossing: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.ends[self.starts[crossing] : self.starts[crossing + 1]]
        return found

    def crowding(self) -> NDArray[np.float64]:
        """How likely each crossing is to be the home of a person: the people of a block live at its crossing."""
        density = np.array([each.density for each in self.districts])
        spacing = np.array([each.spacing for each in self.districts])
        weight = (density * spacing**2)[self.district]
        found: NDArray[np.float64] = weight / weight.sum()
        return found

    def near(self, point: Points) -> int:
        """The crossing nearest to a point."""
        return int(np.argmin(np.hypot(*(self.points - point).T)))


# -- the river, and the lines that are drawn before all else ----------------------------------------------------------


def _river(rng: np.random.Generator) -> Points:
    """From west to east, in bends."""
    x = np.linspace(-200, WIDTH + 200, 190)
    y = np.full_like(x, HEIGHT * rng.uniform(0.42, 0.55))
    for waves, height in ((1.1, 520.0), (2.3, 260.0), (4.7, 90.0)):
        y += height * np.sin(2 * np.pi * waves * x / WIDTH + rng.uniform(0, 2 * np.pi))
    return np.column_stack([x, y])


def _middle(river: Points) -> tuple[float, float]:
    """The old town lies on the north bank."""
    at = int(np.argmin(np.abs(river[:, 0] - WIDTH * 0.5)))
    return float(river[at, 0]), float(river[at, 1] + 420.0)


def _to_river(points: Points, river: Points) -> NDArray[np.float64]:
    """Metres to the middle of the river. Its bends are gentle: the nearest of its points will do."""
    found = np.full(len(points), np.inf)
    for part in np.array_split(river, 8):
        away = np.hypot(points[:, None, 0] - part[None, :, 0], points[:, None, 1] - part[None, :, 1])
        found = np.minimum(found, away.min(axis=1))
    return found


def _north_of(points: Points, river: Points) -> NDArray[np.bool_]:
    return np.asarray(points[:, 1] > np.interp(points[:, 0], river[:, 0], river[:, 1]))


def _lines(rng: np.random.Generator, middle: tuple[float, float], river: Points) -> list[Points]:
    """Six avenues out of the middle, two across the city, a ring, and bridges of the old town."""
    lines = []
    start = rng.uniform(0, 2 * np.pi)
    for number in range(6):
        turn = start + 2 * np.pi * number / 6 + rng.uniform(-0.2, 0.2)
        bend = rng.uniform(-0.00006, 0.00006)
        away = np.arange(260.0, 9_000.0, STEP)
        lines.append(_polar(middle, away, turn + bend * away))
    for radius, share in ((2_050.0, 0.80), (3_300.0, 0.78)):
        turns = np.arange(0, 2 * np.pi, STEP / radius)
        wobble = 1 + 0.05 * np.sin(3 * turns + rng.uniform(0, 6)) + 0.03 * np.sin(5 * turns + rng.uniform(0, 6))
        ring = _polar(middle, radius * wobble, turns)
        ring[:, 1] = middle[1] + (ring[:, 1] - middle[1]) * share
        lines.append(np.concatenate([ring, ring[:1]]))
    for offset in (-330.0, 210.0):
        x = middle[0] + offset
        y = float(np.interp(x, river[:, 0], river[:, 1]))
        lines.append(np.array([[x, y + 190], [x + 5, y + 95], [x - 4, y - 95], [x, y - 190]]))
    return lines


def _polar(middle: tuple[float, float], away: NDArray[np.float64], turn: NDArray[np.float64]) -> Points:
    return np.column_stack([middle[0] + away * np.cos(turn), middle[1] + away * np.sin(turn)])


def _draw(lines: list[Points], river: Points) -> tuple[Points, Edges, NDArray[np.int64]]:
    """Crossings along the lines; across the river there is a bridge. Lines meet where they are near."""
    points: list[NDArray[np.float64]] = []
    edges: list[tuple[int, int]] = []
    kinds: list[int] = []
    for line in lines:
        inside = (line > 60).all(axis=1) & (line[:, 0] < WIDTH - 60) & (line[:, 1] < HEIGHT - 60)
        before: int | None = None
        for point, here, dry in zip(line, inside, _to_river(line, river) > BANK, strict=True):
            if not here:
                before = None
                continue
            if not dry:
                continue
            known = np.array(points) if points else np.zeros((0, 2))
            near = np.hypot(*(known - point).T)
            number = int(np.argmin(near)) if len(near) and near.min() < STEP * 0.45 else len(points)
            if number == len(points):
                points.append(point)
            if before is not None and before != number:
                ends = np.array([points[before], points[number]])
                across = bool(np.logical_xor(*_north_of(ends, river)))
                if (across and np.hypot(*(ends[0] - ends[1])) < 5 * BANK) or (not across and _dry(ends, river)):
                    edges.append((before, number))
                    kinds.append(BRIDGE if across else AVENUE)
            before = number
    return np.array(points), np.array(edges), np.array(kinds)


def _dry(ends: Points, river: Points) -> bool:
    """Whether a line stays out of the water."""
    along = ends[0] + np.linspace(0, 1, 12)[:, None] * (ends[1] - ends[0])
    return bool(_to_river(along, river).min() > RIVER)


# -- crossings, and the streets between them ---------------------------------------------------------------------------


def _sow(rng: np.random.Generator, parts: list[District], river: Points, taken: Points) -> Points:
    """The crossings of every district in its own pattern, none in the water or close to one that is there."""
    found = [taken]
    for number, part in enumerate(parts):
        radius = {"old": 1_100.0, "grid": 2_600.0, "suburb": 5_000.0}[part.kind]
        steps = np.arange(-radius, radius, part.spacing)
        # Blocks are longer than they are deep.
        across, along = np.meshgrid(
            steps, np.arange(-radius, radius, part.spacing * (1.35 if part.kind == "grid" else 1))
        )
        lattice = np.column_stack([across.ravel(), along.ravel()])
        jitter = {"old": 0.36, "grid": 0.035, "suburb": 0.27}[part.kind] * part.spacing
        lattice += rng.normal(0, 1, lattice.shape).clip(-1.1, 1.1) * jitter
        turn = np.array([[np.cos(part.angle), np.sin(part.angle)], [-np.sin(part.angle), np.cos(part.angle)]])
        sown = lattice @ turn + part.centre
        if part.kind != "old":  # parks and yards
            sown = sown[rng.random(len(sown)) > 0.06]
        sown = sown[(sown > 40).all(axis=1) & (sown[:, 0] < WIDTH - 40) & (sown[:, 1] < HEIGHT - 40)]
        sown = sown[district_of(sown, parts) == number]
        sown = sown[_to_river(sown, river) > BANK]
        for others in found:
            keep = np.ones(len(sown), bool)
            for chunk in np.array_split(np.arange(len(sown)), max(1, len(sown) // 512)):
                away = np.hypot(*(sown[chunk][:, None, :] - others[None, :, :]).transpose(2, 0, 1))
                keep[chunk] = away.min(axis=1) > 0.45 * part.spacing
            sown = sown[keep]
        found.append(sown)
    return np.concatenate(found[1:])


def _join(
    points: Points, edges: Edges, kinds: NDArray[np.int64], river: Points, parts: list[District]
) -> tuple[Edges, NDArray[np.int64]]:
    """Joins neighbours that have no third crossing between them and no water."""
    near = _nearest(points)
    pairs = []
    for column in range(near.shape[1]):
        others = near[:, column]
        ends, length = points[others], np.hypot(*(points - points[others]).T)
        middle, clear = (points + ends) / 2, length < LONGEST
        for third in range(near.shape[1]):
            if third != column:
                away = np.hypot(*(points[near[:, third]] - middle).T)
                # The corners of a block lie on the circle of its diagonal: a little more, and no diagonal is a street.
                clear &= away > length / 2 * 1.06
        pairs.append(np.column_stack([np.arange(len(points)), others])[clear])
    joined = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)
    joined = joined[_north_of(points[joined[:, 0]], river) == _north_of(points[joined[:, 1]], river)]
    along = np.linspace(0, 1, 5)[:, None, None] * (points[joined[:, 1]] - points[joined[:, 0]]) + points[joined[:, 0]]
    wet = (_to_river(along.reshape(-1, 2), river) < RIVER).reshape(5, -1).any(axis=0)
    known = {tuple(sorted(pair)) for pair in edges.tolist()}
    fresh = np.array([pair for pair in joined[~wet].tolist() if tuple(pair) not in known])
    old = np.array([each.kind == "old" for each in parts])[district_of(points, parts)]
    which = np.where(old[fresh].all(axis=1), LANE, STREET)
    return np.concatenate([np.sort(edges, axis=1), fresh]), np.concatenate([kinds, which])


def _nearest(points: Points) -> NDArray[np.int64]:
    """The nearest others of each, the nearest first."""
    found = []
    for chunk in np.array_split(np.arange(len(points)), max(1, len(points) // 256)):
        away = np.hypot(*(points[chunk][:, None, :] - points[None, :, :]).transpose(2, 0, 1))
        away[np.arange(len(chunk)), chunk] = np.inf
        close = np.argpartition(away, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        order = np.argsort(np.take_along_axis(away, close, axis=1), axis=1, kind="stable")
        found.append(np.take_along_axis(close, order, axis=1))
    return np.concatenate(found)


def _connected(points: Points, edges: Edges, kinds: NDArray[np.int64]) -> tuple[Points, Edges, NDArray[np.int64]]:
    """Without crossings that cannot be reached from the largest component."""
    label = np.arange(len(points))
    while True:
        lowest = label.copy()
        np.minimum.at(lowest, edges[:, 0], label[edges[:, 1]])
        np.minimum.at(lowest, edges[:, 1], label[edges[:, 0]])
        lowest = lowest[lowest]
        if (lowest == label).all():
            break
        label = lowest
    kept = label == np.bincount(label).argmax()
    number = np.cumsum(kept) - 1
    inside = kept[edges].all(axis=1)
    return points[kept], number[edges[inside]], kinds[inside]
