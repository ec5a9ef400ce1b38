"""Large plans that only pay in the long run wait until it is sure that they pay, and do not come too often.

Repair lowers the maximum, and is never held back. Regrouping saves a few hundredths for many moves, and what it saves
depends on rates that change all the time: whoever follows every change never comes to rest. So a strategy says that it
has a wish, and is held back until it has had one at several looks in a row. Then it may make about as many moves as it
wished for, and has to rest after that: the next time twice as long, as long as it has wishes again and again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

#: Of the moves that were wished for so many may be made: while they are made the load goes on changing.
MARGIN = 1.25
#: Rests are never longer than so many first ones.
LONGEST = 8
#: Who has looked in vain does so again after this share of a rest: to look takes long.
VAIN = 0.1


class Stage(Enum):
    """What a strategy may do with a plan that only pays in the long run."""

    GO = "suggest it"
    ASK = "say that there is one"
    REST = "do not look for one"


@dataclass(frozen=True)
class Wish:
    """So many ``moves``, if they are wished for at so many ``looks`` in a row, and a rest of ``pause`` seconds then.

    None of them: it was looked for such a plan, and there is none.
    """

    moves: int
    looks: int
    pause: float


@dataclass
class Patience:
    looks: int = 0  # in a row at which there was a wish
    budget: int = 0  # moves that may still be made
    until: float = float("-inf")  # no wishes before
    rests: int = field(default=1)  # how many first ones the next one is as long as

    def stage(self, now: float) -> Stage:
        if self.budget > 0:
            return Stage.GO
        return Stage.REST if now < self.until else Stage.ASK

    def heard(self, now: float, wish: Wish | None, made: int) -> None:
        """After a look: what was wished for, and how many moves are being made."""
        if now < self.until:
            return
        if wish is not None and not wish.moves:
            self.until, wish = now + VAIN * wish.pause, None
        if self.budget > 0:
            self.budget = 0 if wish is None else max(0, self.budget - made)
            if wish is not None and self.budget == 0:
                self.until, self.rests = now + wish.pause * self.rests, min(2 * self.rests, LONGEST)
            self.looks = 0
        elif wish is None:
            self.looks, self.rests = 0, max(1, self.rests // 2)
        else:
            self.looks += 1
            if self.looks >= wish.looks:
                self.budget = int(MARGIN * wish.moves) + 1
