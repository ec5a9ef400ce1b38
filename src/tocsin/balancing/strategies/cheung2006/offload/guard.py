"""What output offload may not do to the acceptor's input, so that two brokers do not balance in a circle.

Without it, input balancing gives a heavy subscription away, and output balancing gives it back (Tables 4.2 to 4.5).
The text and figure 4.8 differ. The text: the acceptor's input ratio must not exceed ours by more than the detection
threshold. The figure compares the *outputs* with that threshold, which lets through the very move of Table 4.5, after
which they are equal. The text is the default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.errors import UserError

TEXT, FIGURE = "input", "output"


@dataclass(frozen=True)
class After:
    """The four ratios after some subscribers have gone."""

    our_input: float
    their_input: float
    our_output: float
    their_output: float


class OffloadGuard(Protocol):
    def excludes(self, pair: Pair, after: After, overloaded: bool) -> bool:
        """Whether output offload must not do this."""


@dataclass
class InputNotAbove:
    """The acceptor's input ratio stays below ours, or within the detection threshold of it.

    A broker whose output is overloaded may go on until it reaches the lower threshold: it then accepts nothing back.
    ``compares``: the ratio that has to differ by more than the threshold, as the text (input) or the figure (output).
    """

    compares: str = TEXT

    def __post_init__(self) -> None:
        if self.compares not in (TEXT, FIGURE):
            raise UserError(f"compares is {self.compares!r}", hint=f"it is {TEXT} or {FIGURE}")

    def excludes(self, pair: Pair, after: After, overloaded: bool) -> bool:
        if overloaded and after.our_output >= pair.parameters.lower_overload:
            return False
        ours, theirs = after.our_input, after.their_input
        compared = (ours, theirs) if self.compares == TEXT else (after.our_output, after.their_output)
        return theirs > ours and abs(compared[0] - compared[1]) > pair.parameters.local_ratio_threshold
