"""Input offload: only what is in the covering subscription set can save publications here (figures 4.1 to 4.4)."""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.offload import match_offload
from tocsin.balancing.strategies.cheung2006.offload.amount import amount
from tocsin.balancing.strategies.cheung2006.offload.bound import most
from tocsin.balancing.strategies.cheung2006.offload.choice import choice, in_order
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard


def select(pair: Pair, overloaded: bool) -> None:
    """Chooses until one of the three ends: nothing is left, this broker is the less loaded one, or both are equal.

    If nothing can go and this broker is overloaded, match offload relieves it. If it is not, the acceptor would only
    give the same subscriptions back.
    """
    while not ended(pair):
        card = choice(in_order(report_cards(pair)), difference(pair), overloaded)
        if card is None:
            break
        pair.offload(card.subscription, card.subscribers)
    if overloaded and not pair.selection:
        match_offload.select(pair, overloaded=True)


def difference(pair: Pair) -> float:
    return pair.ours.input_ratio - pair.theirs.input_ratio


def ended(pair: Pair) -> bool:
    found = difference(pair)
    return found < 0 or abs(found) < pair.parameters.balance_percentage


def report_cards(pair: Pair) -> list[ReportCard]:
    cards = (report_card(pair, each) for each in pair.candidates_of_css())
    return [card for card in cards if card.subscribers > 0]


def report_card(pair: Pair, number: int) -> ReportCard:
    extra, reducible, subscribers = pair.extra(number), pair.reducible(number), pair.subscribers[number]
    ours, theirs, near = pair.ours, pair.theirs, pair.parameters.balance_percentage

    def difference_after(count: int) -> float:
        reduced = reducible if count == subscribers else 0.0
        return ours.input_after(-count, -reduced) - theirs.input_after(count, extra)

    def balanced(count: int) -> bool:
        found = difference_after(count)
        return found < 0 or abs(found) < near

    count = amount(most(pair, number), balanced)
    return ReportCard(
        number,
        count,
        difference_after(count),
        pair.covering.covered(number, pair.accepting),
        pair.reduced(number, count),
        pair.output(number),
    )
