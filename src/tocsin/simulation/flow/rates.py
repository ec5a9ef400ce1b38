"""λ of all BE subscriptions at once: what ``tocsin.broker.core.model.rate.Rate`` measures for one."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.arrays import Floats, Longs
from tocsin.broker.core.load_reports import NEWS
from tocsin.broker.core.model.rate import WINDOW, seconds


class Rates:
    """Counted from 0 on. ``reported``: what the coordinator knows; a change of less than ``NEWS`` is not reported."""

    def __init__(self, count: int) -> None:
        self._sum: Floats = np.zeros(count)
        self._at: Floats = np.zeros(count)
        self.reported: Floats = np.zeros(count)

    def add(self, ks: Longs, sizes: Longs, now: float) -> None:
        self._sum[ks] = self._sum[ks] * np.exp((self._at[ks] - now) / WINDOW) + sizes
        self._at[ks] = now

    def per_second(self, now: float) -> Floats:
        return np.asarray(self._sum * np.exp((self._at - now) / WINDOW) / seconds(now))

    def news(self, now: float) -> Longs:
        """Those whose rate has changed since it was reported, which it is now."""
        rate = self.per_second(now)
        ks = np.flatnonzero(np.abs(rate - self.reported) > NEWS * np.maximum(rate, self.reported))
        self.reported[ks] = rate[ks]
        return ks
