"""Holds large plans back until they are certain to pay, and keeps them apart in time.

Repair lowers the maximum and is never held back. Regrouping saves a few percent for many migrations, and its gain
depends on rates that change all the time: a strategy that followed every change would never come to rest. So a strategy
first only proposes such a plan. After several evaluations in a row have proposed one, the gate opens for about as many
migrations as were proposed. Then the strategy rests; each further rest is twice as long while proposals keep coming.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tocsin.balancing.host.load_balancer import Deferral

#: The gate opens for this many times the proposed migrations: the load goes on changing while they are made.
MARGIN = 1.25
#: The longest rest, as a multiple of the first one.
LONGEST = 8
#: After an evaluation that found nothing the next one waits for this share of a rest, because evaluating takes long.
FRUITLESS = 0.1


class Permission(Enum):
    """What a strategy may do with a plan that only pays in the long run."""

    SUGGEST = "suggest it"
    PROPOSE = "only propose it"
    REST = "do not look for one"


@dataclass(frozen=True)
class Proposal:
    """Make ``migrations`` once ``evaluations`` in a row have proposed it, then rest for ``rest`` seconds.

    ``migrations == 0``: evaluated, and nothing worthwhile found. ``reason``: gain and cost, for people.
    """

    migrations: int
    evaluations: int
    rest: float
    reason: str = ""


@dataclass
class RegroupGate:
    agreeing: int = 0  # evaluations in a row that had a proposal
    budget: int = 0  # migrations that may still be made
    rest_until: float = float("-inf")
    rest_factor: int = 1  # the next rest as a multiple of the first one
    proposal: Proposal | None = None  # the latest

    def permission(self, now: float) -> Permission:
        if self.budget > 0:
            return Permission.SUGGEST
        return Permission.REST if now < self.rest_until else Permission.PROPOSE

    def evaluated(self, now: float, proposal: Proposal | None, made: int) -> None:
        """Take the result of an evaluation: its proposal, and how many migrations it begins."""
        if now < self.rest_until:
            return
        self.proposal = proposal
        if proposal is not None and not proposal.migrations:
            self.rest_until, proposal = now + FRUITLESS * proposal.rest, None
        if self.budget > 0:
            self.budget = 0 if proposal is None else max(0, self.budget - made)
            if proposal is not None and self.budget == 0:
                self.rest_until = now + proposal.rest * self.rest_factor
                self.rest_factor = min(2 * self.rest_factor, LONGEST)
            self.agreeing = 0
        elif proposal is None:
            self.agreeing, self.rest_factor = 0, max(1, self.rest_factor // 2)
        else:
            self.agreeing += 1
            if self.agreeing >= proposal.evaluations:
                self.budget = int(MARGIN * proposal.migrations) + 1

    def status(self, now: float) -> Deferral | None:
        """What is held back, and what has to happen before it is made; None if nothing was proposed."""
        if (proposal := self.proposal) is None:
            return None
        left, reason = max(self.rest_until - now, 0.0), proposal.reason or "a plan that pays in the long run"
        again = f", evaluated again in {left:.0f} s" if left else ""
        if not proposal.migrations:
            return Deferral("nothing found", f"{reason}; nothing is held back{again}", seconds=left)
        if left:
            return Deferral("resting", f"{reason}; resting{again}", proposal.migrations, left)
        if self.budget > 0:
            text = f"{reason}; up to {self.budget} of them may be made now"
            return Deferral("going on", text, proposal.migrations)
        text = f"{reason}; held back, has paid in {self.agreeing} of {proposal.evaluations} evaluations in a row"
        return Deferral("held back", text, proposal.migrations)
