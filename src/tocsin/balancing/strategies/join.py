"""A new broker takes its share: brokers far below the mean are filled up to it from the most loaded ones.

No other subscriber migrates. Of the heavy subscribers of the most loaded broker those go first that relieve it most
for what they cost the new broker, so an empty broker fills with subscribers that share subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.ranks import Ranks
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax

#: The best of this many of the heaviest is taken.
CHOICE = 64


@dataclass
class Join(MinMax):
    """A broker below ``share`` of the mean counts as new."""

    share: float = 0.5

    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        if not view.live.any():
            return
        mean = float(view.F[view.live].sum() / view.capacity[view.live].sum())
        new = set(np.flatnonzero(view.accepts & (view.relative < self.share * mean)).tolist())
        givers = view.live.copy()
        givers[list(new)] = False
        ranks = Ranks(view)
        while new and givers.any():
            target = min(new, key=lambda j: (view.relative[j], j))
            source = int(np.argmax(np.where(givers, view.relative, -np.inf)))
            found = self._pick(view, ranks, source, target, mean) if view.accepts[target] else None
            if view.relative[source] <= mean or found is None:
                new.discard(target)
                continue
            gain = float(view.relative[source])
            view.migrate(found, target)
            ranks.migrate(found, source, target)
            gain -= float(max(view.relative[source], view.relative[target]))
            yield Migration(found, source, target, gain, reason="join: the new broker's share")

    def _pick(self, view: WhatIf, ranks: Ranks, source: int, target: int, mean: float) -> int | None:
        for us in ranks.chunks(source, CHOICE):
            added, released = view.added_to(us, target), view.releases(us)
            fits = (added > 0) & (view.relative[target] + added / view.capacity[target] <= mean)
            if fits.any():
                return int(us[np.argmax(np.where(fits, released, 0.0) / np.where(fits, added, 1.0))])
        return None
