"""Dynamic migration, what LDM and SDM have in common: Algorithm 1 of the DEBS paper, lines 5 to 25.

While cov > α and μ > β, the heaviest subscriber of the most loaded broker that has a valid migration migrates. The two
schemes differ only in the brokers that may be the destination b'.

What the printed pseudocode leaves open, and what we do:

- Line 17 compares the present loads. The text says that the destination *after* the migration may not exceed the
  original load of the source: the text is followed.
- A destination that ends exactly at the source's original load would exchange the two brokers' roles, and the loop
  would not end (two brokers, one subscriber). It has to end below.
- If the most loaded broker has no valid migration, the printed loop never ends. We stop, because the maximum cannot be
  lowered. The text agrees ("until no further subscriber migration can be performed").
- A subscriber without load could migrate endlessly too; it stays.
- Equal brokers: the lower number. Equal subscribers: the lower number. Equal similarity: the less loaded broker.
- A subscriber that migrates twice goes straight to the last destination.
- Loads are relative to capacity. Brokers that are full, draining or gone are not destinations; draining and gone ones
  do not count in cov and μ either, because another strategy empties them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats, Longs
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.model.ranks import Ranks
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax

#: A load counts as lower below this share of another; otherwise rounding could swap two loads endlessly.
LESS = 1 - 1e-9


@dataclass
class DynamicMigration(MinMax, ABC):
    """``alpha`` bounds cov, ``beta`` is the mean load below which imbalance does no harm."""

    alpha: float = 0.15
    beta: float = 0.0

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        at = view.at.copy()
        yield from collapsed(at, self.play(view))

    def play(self, view: WhatIf) -> Iterator[Migration]:
        """The migrations as the algorithm makes them; the view follows."""
        ranks, relative = Ranks(view), view.relative
        lives = np.flatnonzero(view.live)
        while self.unbalanced(relative if len(lives) == view.m else relative[lives]):
            b = int(lives[relative[lives].argmax()])
            found = self._valid(view, ranks, b)
            if found is None:
                return
            u, target = found
            gain = float(relative[b])
            view.migrate(u, target)
            ranks.migrate(u, b, target)
            gain -= max(float(relative[b]), float(relative[target]))
            yield Migration(u, b, target, gain, reason=self._reason)

    def unbalanced(self, relative: Floats) -> bool:
        """By the loads of the brokers that count."""
        if not len(relative):
            return False
        mu = float(relative.sum()) / len(relative)
        sigma = math.sqrt(max(0.0, float(relative @ relative) / len(relative) - mu * mu))
        return mu > self.beta and sigma > self.alpha * mu

    def _valid(self, view: WhatIf, ranks: Ranks, b: int) -> tuple[int, int] | None:
        limit = float(view.relative[b]) * LESS
        open_ = view.accepts
        open_[b] = False
        goals = self._goals(view, open_)
        if not len(goals):
            return None
        for us in ranks.chunks(b):
            if len(us) == 1:
                u = int(us[0])
                best, added = most_similar(view, u, goals)
                target = int(goals[best])
                if added > 0 and float(view.relative[target]) + added / float(view.capacity[target]) < limit:
                    return u, target
                continue
            added_each = view.added_to(us, int(goals[0]))[:, None] if len(goals) == 1 else view.added_all(us)[:, goals]
            first = np.argmin(added_each, axis=1)
            targets, least = goals[first], added_each[np.arange(len(us)), first]
            after = view.relative[targets] + least / view.capacity[targets]
            valid = np.flatnonzero((least > 0) & (after < limit))
            if len(valid):
                return int(us[valid[0]]), int(targets[valid[0]])
        return None

    _reason = ""

    @abstractmethod
    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        """The brokers that may be b', the least loaded first; a subscriber goes to the one that shares most with it."""


def most_similar(view: WhatIf, u: int, goals: Longs) -> tuple[int, float]:
    """Which of these brokers u adds least to, the first of equals, and how much that is."""
    at_first = view.added_at(u, int(goals[0]))
    # It can add no less than what is delivered to it.
    if len(goals) == 1 or at_first == view.u[u]:
        return 0, at_first
    added = view.added(u)[goals]
    best = int(added.argmin())
    return best, float(added[best])
