"""Is it time to do something? Each detector answers overloaded, normal or underloaded.

Each has hysteresis: it begins to speak up at one threshold and falls silent only at a lower one (``settle``, a share of
the first), so that a load near the threshold does not start and stop balancing all the time.
"""

from __future__ import annotations

from statistics import fmean, pstdev

from tocsin.balancing.components import LoadState, Reports


class Always:
    """For strategies that have thresholds of their own."""

    def make_decision(self, criterion: str, reports: Reports, now: float) -> LoadState:
        return LoadState.OVERLOADED


class Spread:
    """The coordinator's, from the DEBS paper: the brokers together are unbalanced when cov > α and μ > β."""

    def __init__(self, alpha: float = 0.15, beta: float = 0.0, settle: float = 1.0) -> None:
        self.alpha, self.beta, self.settle = alpha, beta, settle
        self._speaking = False

    def make_decision(self, criterion: str, reports: Reports, now: float) -> LoadState:
        loads = [told.relative for told in reports.get_load_report(criterion, now)]
        mu = fmean(loads) if loads else 0.0
        cov = pstdev(loads) / mu if mu else 0.0
        self._speaking = cov > self.alpha * (self.settle if self._speaking else 1.0) and mu > self.beta
        return LoadState.OVERLOADED if self._speaking else LoadState.NORMAL


class Absolute:
    """One peer's: its own relative load beyond fixed thresholds."""

    def __init__(self, me: str, high: float, low: float = 0.0, settle: float = 1.0) -> None:
        self.me, self.high, self.low, self.settle = me, high, low, settle
        self._speaking = False

    def make_decision(self, criterion: str, reports: Reports, now: float) -> LoadState:
        own = [told.relative for told in reports.get_load_report(criterion, now, [self.me])]
        return self._decide(own[0], self.high, self.low) if own else LoadState.NORMAL

    def _decide(self, load: float, high: float, low: float) -> LoadState:
        factor = self.settle if self._speaking else 1.0
        over, under = load > high * factor, load < low / factor
        self._speaking = over or under
        return LoadState.OVERLOADED if over else LoadState.UNDERLOADED if under else LoadState.NORMAL


class Relative(Absolute):
    """One peer's: its own relative load beyond ``factor`` times, or below 1/``factor`` of, the mean of all it knows."""

    def __init__(self, me: str, factor: float = 1.15, settle: float = 1.0) -> None:
        super().__init__(me, factor, 1 / factor, settle)

    def make_decision(self, criterion: str, reports: Reports, now: float) -> LoadState:
        known = {told.peer: told.relative for told in reports.get_load_report(criterion, now)}
        mu = fmean(known.values()) if known else 0.0
        if self.me not in known or mu == 0:
            return LoadState.NORMAL
        return self._decide(known[self.me] / mu, self.high, self.low)


DETECTORS = {"always": Always, "spread": Spread, "absolute": Absolute, "relative": Relative}
