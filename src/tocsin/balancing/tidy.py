"""Peal's finishing touch: subscribers for whom alone a broker fetches something go where it is fetched anyway."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin.balancing.move import Move
from tocsin.balancing.trial import Trial

#: Passes over everybody; each move may open or close others.
PASSES = 6
#: Candidates of one pass; the best come first, so what is left out is worth the least.
MOST = 50_000

TIDY = "peal: others there want the same"


def tidy(view: Trial, *, price: float, limit: float) -> Iterator[Move]:
    """Moves in the view that save at least ``price`` each and leave their target at most at ``limit``."""
    here = np.flatnonzero((view.at >= 0) & view.live[view.at])
    for _ in range(PASSES):
        alone = view.releases(here) - view.u[here]
        us = here[alone > price]
        us = us[np.argsort(-(view.releases(us) - view.u[us]), kind="stable")][:MOST]
        before = view.at[us].copy()
        added = np.where(view.accepts, view.added_all(us), np.inf)
        added[np.arange(len(us)), before] = np.inf
        gain = view.releases(us) - added.min(axis=1, initial=np.inf)
        order = np.argsort(-gain, kind="stable")
        done = 0
        for u in us[order[gain[order] > price]].tolist():
            source, now = int(view.at[u]), view.added(u)
            saved = np.where(view.accepts & (view.relative + now / view.capacity <= limit), view.release(u) - now, 0.0)
            saved[source] = 0.0
            target = int(np.argmax(saved))
            if saved[target] > price:
                view.move(u, target)
                done += 1
                yield Move(u, source, target, float(saved[target]), why=TIDY)
        if not done:
            return
