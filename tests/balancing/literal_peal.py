"""Peal's repair as docs/explanation/balancing.md describes it, in plain Python on top of the printed algorithms: slow.

It is the reference for the migrations that repair makes, and its peer in the speed benchmark. As with the printed
algorithms, brokers are equal and open, and the subscriptions and load of a broker are computed at every use.
"""

from __future__ import annotations

from literal_debs2019 import Literal

#: As repair.py has them.
ROUNDING, ROUNDS, PAIRS, ENOUGH = 1e-12, 12, 8, 1_024
#: Loads closer than this are the same, for the plan as a whole.
SAME = 1e-9

Step = tuple[int, int]  # subscriber, where to


class LiteralPeal(Literal):
    def repair(self, trigger: float) -> list[tuple[int, int, int]]:
        """The migrations of a plan, in their order."""
        home, highest, total = list(self.x), max(self.F), sum(self.F)
        shuffled = Literal(self.y, self.x, self.R, self.m)
        shuffled.shuffle()
        target = max(shuffled.F)
        if highest <= target * (1 + trigger):
            return []
        self.last: dict[int, float] = {}  # migrated subscribers in order, and how far that lowered their broker's load
        for b in sorted(self.B, key=lambda j: -self.F[j]):
            if self.F[b] > target:
                self.shed(b, target)
        self.small_change(target)
        migrations = [(i, self.x[i], worth) for i, worth in self.last.items() if self.x[i] != home[i]]
        plan = self.ordered(home, migrations)
        lower = max(self.F) < highest * (1 - SAME)
        return plan if lower or (max(self.F) <= highest and total - sum(self.F) > SAME * total) else []

    def migrate(self, i: int, b: int) -> None:
        source, before = self.x[i], self.F[self.x[i]]
        self.x[i] = b
        self.F[source], self.F[b] = self.load(source), self.load(b)
        self.last.pop(i, None)
        self.last[i] = before - self.F[source]

    def added(self, i: int, held: set[int]) -> float:
        return self.u[i] + sum(self.R[k] for k in self.y[i] - held)

    def shed(self, b: int, target: float) -> None:
        """The heaviest first, the last one so that the broker lands just below the target."""
        here = sorted((i for i in self.U if self.x[i] == b and self.u[i] > 0), key=lambda i: (-self.u[i], i))
        for i, following in zip(here, [*here[1:], None], strict=True):
            excess = self.F[b] - target
            if excess <= 0:
                return
            lighter = -1.0 if following is None else self.u[following]
            if self.u[i] > excess and lighter >= excess:
                continue
            added = {j: self.added(i, self.held(j)) for j in self.B if j != b}
            fits = [j for j in added if self.F[j] + added[j] <= target]
            if fits:
                least = min(added[j] for j in fits)
                self.migrate(i, min((j for j in fits if added[j] <= least * (1 + SAME)), key=lambda j: (self.F[j], j)))

    def small_change(self, target: float) -> None:
        for _ in range(ROUNDS * self.m):
            b = max(self.B, key=lambda j: (self.F[j], -j))
            if self.F[b] <= target:
                return
            others = sorted((j for j in self.B if self.F[j] < self.F[b]), key=lambda j: (self.F[j], j))
            step = self.single(b, others, target) or self.exchange(b, others, target)
            if not step:
                return
            for i, j in step:
                self.migrate(i, j)

    def lightest_first(self, j: int) -> list[int]:
        """The subscribers of a broker."""
        return sorted((i for i in self.U if self.x[i] == j), key=lambda i: (self.u[i], i))

    def single(self, b: int, others: list[int], target: float) -> list[Step]:
        """The one migration to the least loaded that leaves the higher of the two lowest."""
        here = [i for i in self.lightest_first(b) if self.u[i] > 0]
        if not here or not others:
            return []
        goal = others[0]
        if len(here) > ENOUGH:
            difference = min(self.F[b] - target, (self.F[b] - self.F[goal]) / 2)
            begin = sum(self.u[i] < difference for i in here) - ENOUGH // 2
            begin = min(max(begin, 0), len(here) - ENOUGH)
            here = here[begin : begin + ENOUGH]
        there, alone = self.held(goal), self.alone(b)
        highest = {
            i: max(
                self.F[b] - self.u[i] - sum(self.R[k] for k in self.y[i] & alone),
                self.F[goal] + self.added(i, there),
            )
            for i in here
        }
        best = min(here, key=lambda i: highest[i])
        halfway = self.F[b] - (self.F[b] - target) / 2
        enough = highest[best] <= max(target, halfway) and highest[best] < self.F[b] * (1 - ROUNDING)
        return [(best, goal)] if enough else []

    def alone(self, b: int) -> set[int]:
        """The BE subscriptions that only one subscriber of a broker has."""
        held = [k for i in self.U if self.x[i] == b for k in self.y[i]]
        count: dict[int, int] = {}
        for k in held:
            count[k] = count.get(k, 0) + 1
        return {k for k in count if count[k] == 1}

    def exchange(self, b: int, others: list[int], target: float) -> list[Step]:
        """Exchanges a subscriber for one that is a little lighter."""
        here, best = self.lightest_first(b), None
        here = here[:: max(1, len(here) // ENOUGH)]
        for j in others:
            there = self.lightest_first(j)
            if not there:
                continue
            excess, room = self.F[b] - target, target - self.F[j]
            difference = excess if room >= excess else max((self.F[b] - self.F[j]) / 2, 0.0)
            for i, other in self.pairs(here, there, difference):
                found = self.exchanged(i, other, b, j)
                if found < self.F[b] * (1 - ROUNDING) and (best is None or found < best[0]):
                    best = (found, i, other, j)
            if best is not None and best[0] <= target:
                break
        return [] if best is None else [(best[1], best[3]), (best[2], b)]

    def pairs(self, ours: list[int], theirs: list[int], difference: float) -> list[tuple[int, int]]:
        """For each of ours the heaviest of theirs that is lighter by the difference; of these the closest pairs."""
        found = []
        for i in ours:
            lighter = [other for other in theirs if self.u[other] <= self.u[i] - difference]
            other = lighter[-1] if lighter else theirs[0]
            off = self.u[i] - self.u[other] - difference
            if off >= -ROUNDING:
                found.append((off, i, other))
        return [(i, other) for _, i, other in sorted(found, key=lambda pair: pair[0])[:PAIRS]]

    def exchanged(self, i: int, other: int, b: int, j: int) -> float:
        self.x[i], self.x[other] = j, b
        highest = max(self.load(b), self.load(j))
        self.x[i], self.x[other] = b, j
        return highest

    def ordered(self, home: list[int], migrations: list[tuple[int, int, float]]) -> list[tuple[int, int, int]]:
        """Each step is the most worthy migration of the most loaded broker that stays below the first maximum.

        Of equally worthy ones to the same broker the one found last comes first.
        """
        goal, self.x = list(self.x), list(home)
        self.F = [self.load(j) for j in self.B]
        ceiling, held = max(self.F) * (1 + ROUNDING), {j: self.held(j) for j in self.B}
        left = [(worth, place, i) for place, (i, _, worth) in enumerate(migrations)]
        done: list[tuple[int, int, int]] = []
        while left:
            heads: dict[tuple[int, int], tuple[float, int, int]] = {}
            for each in left:
                way = (home[each[2]], goal[each[2]])
                heads[way] = max(heads.get(way, each), each)
            for source, b in sorted(heads, key=lambda way: (-self.F[way[0]], way[0], -heads[way][0], way[1])):
                i = heads[source, b][2]
                if self.F[b] + self.added(i, held[b]) <= ceiling:
                    break
            else:
                break
            left.remove(heads[source, b])
            self.x[i] = b
            for j in (source, b):
                self.F[j], held[j] = self.load(j), self.held(j)
            done.append((i, source, b))
        return done
