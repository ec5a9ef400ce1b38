"""The people of a city: they go from home to work, to shops, to friends and back, along the streets, all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.demo.city.ground import Points, stream
from tocsin.demo.city.routes import Routes

#: Ways to move: share of the people, metres a second.
WALKING, CYCLING, DRIVING = (0.62, 1.4), (0.23, 4.8), (0.15, 10.5)
#: Mean seconds at a place before the next way begins.
STAY = 420.0
FIRST = (
    "Ada", "Ben", "Cleo", "Dina", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jun", "Kira", "Leo", "Mina",
    "Noor", "Otis", "Pia", "Quin", "Rosa", "Sami", "Tove", "Uma", "Vito", "Wren", "Yara", "Zeno",
)  # fmt: skip
LAST = (
    "Alder", "Barrow", "Birch", "Bridger", "Calder", "Carver", "Cooper", "Croft", "Dale", "Dyer", "Ellwood", "Farrow",
    "Fenn", "Garland", "Hale", "Hartley", "Holm", "Ives", "Keel", "Lark", "Linden", "Marsh", "Merrick", "Moor",
    "Nash", "Oakes", "Penn", "Quarry", "Reed", "Rowan", "Sailor", "Selby", "Thorne", "Tiller", "Underhill", "Vale",
    "Wick", "Winter", "Yardley", "York",
)  # fmt: skip


class People:
    """Second by second the same for the same seed. Numbers are people's; arrays hold one entry each.

    Every way has a hub at one end, so that all ways are read off the routes to the hubs, forwards or backwards.
    """

    def __init__(self, seed: int, count: int, routes: Routes) -> None:
        self._rng = rng = stream(seed, "people")
        self._routes, self._points = routes, routes.streets.points
        self.count = count
        self.home = rng.choice(len(self._points), count, p=routes.streets.crowding())
        mode = rng.choice(3, count, p=[WALKING[0], CYCLING[0], DRIVING[0]])
        self.speed = np.array([WALKING[1], CYCLING[1], DRIVING[1]])[mode] * rng.normal(1, 0.12, count).clip(0.6, 1.5)
        self.riding = mode > 0
        self._work = rng.integers(0, len(routes.hubs), count)
        self._at_hub = np.full(count, -1)  # the hub where a person is or goes to; -1 home
        self._way = np.zeros((count, routes.longest), np.int32)
        self._last = np.zeros(count, np.int64)  # the place of the goal in the way
        self._place = np.zeros(count, np.int64)
        self._along = np.zeros(count)
        self._length = np.ones(count)
        self._until = rng.exponential(STAY, count)  # staying until then; -1 under way
        self._way[:, 0] = self.home
        self.now = 0.0
        under_way = np.nonzero(rng.random(count) < 0.75)[0]
        self._set_out(under_way)
        # Most are somewhere on their way when it begins.
        self._place[under_way] = (rng.random(len(under_way)) * self._last[under_way]).astype(np.int64)
        self._measure(under_way)

    def step(self) -> None:
        """One second passes."""
        self.now += 1.0
        moving = self._until < 0
        self._along[moving] += self.speed[moving]
        passing = np.nonzero(moving & (self._along >= self._length))[0]
        while len(passing):
            self._along[passing] -= self._length[passing]
            self._place[passing] += 1
            there = self._place[passing] >= self._last[passing]
            self._arrive(passing[there])
            passing = passing[~there]
            self._measure(passing)
            passing = passing[self._along[passing] >= self._length[passing]]
        self._set_out(np.nonzero((self._until >= 0) & (self._until <= self.now))[0])

    def positions(self) -> Points:
        """The location of each person: on the street between two crossings."""
        here, there = self.streets_of()
        part = np.where(self._until < 0, self._along / self._length, 0.0)
        found: Points = self._points[here] + (self._points[there] - self._points[here]) * part[:, None]
        return found

    def streets_of(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The two crossings that each person is between; the same one twice for those who stay."""
        rows = np.arange(self.count)
        here = self._way[rows, self._place]
        ahead = self._way[rows, np.minimum(self._place + 1, self._way.shape[1] - 1)]
        there = np.where(self._until < 0, ahead, here)
        return here.astype(np.int64), there.astype(np.int64)

    def name(self, number: int) -> str:
        """A thousand different ones; then they come again."""
        round_, first = divmod(number, len(FIRST))
        return f"{FIRST[first]} {LAST[(round_ + 7 * first) % len(LAST)]}"

    def _arrive(self, who: NDArray[np.int64]) -> None:
        self._place[who] = self._last[who]
        self._along[who] = 0.0
        self._until[who] = self.now + self._rng.exponential(STAY, len(who))

    def _set_out(self, who: NDArray[np.int64]) -> None:
        """From home mostly to work; from there home, or to some other hub."""
        if not len(who):
            return
        rng, hubs = self._rng, self._routes.hubs
        at = self._at_hub[who]
        other = rng.integers(0, len(hubs), len(who))
        chance = rng.random(len(who))
        goal = np.where(chance < 0.6, np.where(at < 0, self._work[who], -1), other)
        goal = np.where(goal == at, np.where(at < 0, self._work[who], -1), goal)
        # Between two hubs, and from home to one, the way is read forwards; home from a hub, backwards.
        back = goal < 0
        hub = np.where(back, at, goal)
        start = np.where(back | (at < 0), self.home[who], hubs[np.maximum(at, 0)])
        rows, count = self._routes.chains(hub, start)
        places = np.arange(rows.shape[1])[None, :]
        mirrored = np.where(back[:, None], np.maximum(count[:, None] - 1 - places, 0), places)
        self._way[who] = np.take_along_axis(rows, mirrored, axis=1)
        self._last[who] = count - 1
        self._at_hub[who] = goal
        self._place[who], self._along[who], self._until[who] = 0, 0.0, -1.0
        near = who[self._last[who] == 0]  # who lives at a hub is there already
        self._arrive(near)
        self._measure(who)

    def _measure(self, who: NDArray[np.int64]) -> None:
        """The length of the street that they are on."""
        here = self._points[self._way[who, self._place[who]]]
        ahead = np.minimum(self._place[who] + 1, self._way.shape[1] - 1)
        there = self._points[self._way[who, ahead]]
        self._length[who] = np.maximum(np.hypot(*(here - there).T), 1e-6)
