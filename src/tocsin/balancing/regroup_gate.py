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

    None of them: it was looked for such a plan, and there is none. ``why``: what it would gain and cost, for people.
    """

    moves: int
    looks: int
    pause: float
    why: str = ""


class Waiting(Enum):
    """How it stands with such a plan."""

    NONE = "none"
    HELD = "held back"
    GOING = "going on"
    RESTING = "resting"
    VAIN = "in vain"


@dataclass(frozen=True)
class Word:
    """What can be said of it; ``seconds`` until it is looked for again, if that is not at the next look."""

    waiting: Waiting
    text: str = ""
    moves: int = 0
    seconds: float = 0.0


@dataclass
class RegroupGate:
    looks: int = 0  # in a row at which there was a wish
    budget: int = 0  # moves that may still be made
    until: float = float("-inf")  # no wishes before
    rests: int = field(default=1)  # how many first ones the next one is as long as
    wish: Wish | None = None  # that was heard last

    def stage(self, now: float) -> Stage:
        if self.budget > 0:
            return Stage.GO
        return Stage.REST if now < self.until else Stage.ASK

    def heard(self, now: float, wish: Wish | None, made: int) -> None:
        """After a look: what was wished for, and how many moves are being made."""
        if now < self.until:
            return
        self.wish = wish
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

    def word(self, now: float) -> Word:
        """Whether something is held back, and what has to happen before it is not."""
        if (wish := self.wish) is None:
            return Word(Waiting.NONE)
        left, why = max(self.until - now, 0.0), wish.why or "a plan that pays in the long run"
        again = f", judged again in {left:.0f} s" if left else ""
        if not wish.moves:
            return Word(Waiting.VAIN, f"{why}; nothing is held back{again}", seconds=left)
        if left:
            return Word(Waiting.RESTING, f"{why}; that is enough for now{again}", wish.moves, left)
        if self.budget > 0:
            return Word(Waiting.GOING, f"{why}; up to {self.budget} of them may be made now", wish.moves)
        paid = f"has paid at {self.looks} of {wish.looks} looks in a row"
        return Word(Waiting.HELD, f"{why}; held back, {paid}", wish.moves)
