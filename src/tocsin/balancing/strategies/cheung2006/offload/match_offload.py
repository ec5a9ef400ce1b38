"""Match offload: the least traffic goes first, so that matching gets faster and little else changes (4.5 to 4.7)."""

from __future__ import annotations

from tocsin.balancing.strategies.cheung2006.offload.amount import amount
from tocsin.balancing.strategies.cheung2006.offload.bound import most
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard


def select(pair: Pair, overloaded: bool) -> None:
    """Ends if nothing is left, and if both match as fast; or, for an overloaded broker, if it no longer is."""
    while not (relieved(pair) if overloaded else ended(pair)):
        card = next_card(pair, overloaded)
        if card is None:
            break
        pair.offload(card.subscription, card.subscribers)


def difference(pair: Pair) -> float:
    """Equation 3.5."""
    return (pair.ours.matching_delay - pair.theirs.matching_delay) / pair.parameters.delay_normalization


def ended(pair: Pair) -> bool:
    found = difference(pair)
    return found < 0 or abs(found) < pair.parameters.balance_percentage


def relieved(pair: Pair) -> bool:
    """Processor, memory and input are below the lower threshold (figure 4.6)."""
    ours, limit = pair.ours, pair.parameters.lower_overload
    return ours.cpu_ratio < limit and ours.memory_ratio < limit and ours.input_ratio < limit


def extra_traffic(pair: Pair, number: int) -> float:
    return pair.rate(number) + pair.extra(number)


def next_card(pair: Pair, overloaded: bool) -> ReportCard | None:
    """The report card of the least extra traffic of which subscribers can go; the others need not be computed."""
    weighed = sorted((extra_traffic(pair, each), pair.extra(each), each) for each in pair.candidates)
    for _, _, number in weighed:
        card = report_card(pair, number, overloaded)
        if card.subscribers > 0:
            return card
    return None


def report_card(pair: Pair, number: int, overloaded: bool) -> ReportCard:
    ours, theirs, limits = pair.ours, pair.theirs, pair.parameters
    output, reducible = pair.output(number), pair.reducible(number)
    subscribers = pair.subscribers[number]

    def difference_after(count: int) -> float:
        return (ours.delay_after(-count) - theirs.delay_after(count)) / limits.delay_normalization

    def balanced(count: int) -> bool:
        found = difference_after(count)
        return found < 0 or abs(found) < limits.balance_percentage

    def relieves(count: int) -> bool:
        reduced = reducible if count == subscribers else 0.0
        limit = limits.lower_overload
        return (
            ours.cpu_after(-count, -reduced) < limit
            and ours.memory_after(-count, -reduced, -output * count) < limit
            and ours.input_after(-count, -reduced) < limit
        )

    count = amount(most(pair, number), relieves if overloaded else balanced)
    return ReportCard(
        number,
        count,
        difference_after(count),
        pair.covering.covered(number, pair.accepting),
        pair.reduced(number, count),
        output,
        extra_traffic(pair, number),
    )
