"""Which report card wins: figures 4.2 and 4.3. Cards are in ascending order of their difference."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard


def in_order(cards: Sequence[ReportCard]) -> list[ReportCard]:
    """Ties: more publications saved first, then more subscribers."""
    return sorted(cards, key=lambda card: (card.difference, -card.reduced, -card.subscribers, card.subscription))


def closest(cards: Sequence[ReportCard], before: float) -> ReportCard | None:
    """Figure 4.2: the difference closest to 0; None if that is further from it than ``before``."""
    for position, card in enumerate(cards):
        following = cards[position + 1] if position + 1 < len(cards) else None
        if following is not None and abs(card.difference) > abs(following.difference):
            continue
        return None if abs(card.difference) > abs(before) else card
    return None


def relieving(cards: Sequence[ReportCard]) -> ReportCard | None:
    """Figure 4.3, for an overloaded broker: of those after which it is the less loaded one the last, else the first."""
    for position, card in enumerate(cards):
        following = cards[position + 1] if position + 1 < len(cards) else None
        if following is not None and card.difference < 0 and following.difference < 0:
            continue
        return card
    return None


def choice(cards: Sequence[ReportCard], before: float, overloaded: bool) -> ReportCard | None:
    return relieving(cards) if overloaded else closest(cards, before)
