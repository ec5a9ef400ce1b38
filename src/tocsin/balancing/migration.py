"""Dynamic migration, what LDM and SDM have in common: Algorithm 1 of the DEBS paper, lines 5 to 25.

While cov > α and μ > β, the heaviest subscriber of the most loaded broker that has a valid migration is moved. The two
schemes differ only in the destination b'.

What the printed pseudocode leaves open, and what we do:

- Line 17 compares the present loads. The text says that the destination *after* the migration may not exceed the
  original load of the source: the text is followed.
- A destination that ends exactly at the source's original load would exchange the two brokers' roles and the loop would
  go on for ever (two brokers, one subscriber). It has to end below.
- If the most loaded broker has no valid migration, the printed loop never ends. We stop: what is above all others
  cannot be lowered, which is the goal. The text agrees ("until no further subscriber migration can be performed").
- A subscriber that causes no load could be moved for ever as well; it stays.
- Equal brokers: the lower number. Equal subscribers: the lower number. Equal similarity: the less loaded broker.
- A subscriber that is moved twice goes straight to the last destination.
- Loads are relative to capacity. Brokers that are full, draining or gone are no destinations, draining and gone ones do
  not count in cov and μ either: emptying them is the work of another strategy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.balancing.arrays import Flags, Floats, Longs
from tocsin.balancing.move import Move, collapsed
from tocsin.balancing.ranks import Ranks
from tocsin.balancing.strategy import MinMax
from tocsin.balancing.trial import Trial

#: Below this share of a load another is less; rounding alone could exchange two loads for ever.
LESS = 1 - 1e-9


@dataclass
class Migration(MinMax, ABC):
    """``alpha`` bounds cov, ``beta`` is the mean load below which imbalance does no harm."""

    alpha: float = 0.15
    beta: float = 0.0

    def suggest(self, view: Trial) -> Iterator[Move]:
        at = view.at.copy()
        yield from collapsed(at, self.play(view))

    def play(self, view: Trial) -> Iterator[Move]:
        """The moves as the algorithm makes them; the view follows."""
        ranks = Ranks(view)
        while self.unbalanced(view):
            b = int(np.argmax(np.where(view.live, view.relative, -np.inf)))
            found = self._valid(view, ranks, b)
            if found is None:
                return
            u, target = found
            worth = float(view.relative[b])
            view.move(u, target)
            ranks.move(u, b, target)
            worth -= float(max(view.relative[b], view.relative[target]))
            yield Move(u, b, target, worth, why=self._why)

    def unbalanced(self, view: Trial) -> bool:
        relative = view.relative[view.live]
        if not len(relative):
            return False
        mu = float(relative.sum()) / len(relative)
        sigma = math.sqrt(max(0.0, float(relative @ relative) / len(relative) - mu * mu))
        return mu > self.beta and sigma > self.alpha * mu

    def _valid(self, view: Trial, ranks: Ranks, b: int) -> tuple[int, int] | None:
        limit = float(view.relative[b])
        open_ = view.accepts
        open_[b] = False
        if not open_.any():
            return None
        for us in ranks.chunks(b):
            targets, added = self._targets(view, us, open_)
            after = view.relative[targets] + added / view.capacity[targets]
            valid = np.flatnonzero((targets >= 0) & (added > 0) & (after < limit * LESS))
            if len(valid):
                return int(us[valid[0]]), int(targets[valid[0]])
        return None

    _why = ""

    @abstractmethod
    def _targets(self, view: Trial, us: Longs, open_: Flags) -> tuple[Longs, Floats]:
        """For each of these subscribers its destination (-1: none), and the load it would bring there."""
