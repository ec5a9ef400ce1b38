"""Output offload in two phases: first what adds no input to the acceptor, then what does (figures 4.8 to 4.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tocsin.balancing.strategies.cheung2006.offload.amount import amount
from tocsin.balancing.strategies.cheung2006.offload.bound import most
from tocsin.balancing.strategies.cheung2006.offload.choice import choice
from tocsin.balancing.strategies.cheung2006.offload.covering import members, set_of
from tocsin.balancing.strategies.cheung2006.offload.guard import After, OffloadGuard
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.offload.report_card import ReportCard

Guards = Sequence[OffloadGuard]


def select(pair: Pair, overloaded: bool, guards: Guards = ()) -> None:
    phase_one(pair, pair.covering.covered_set(pair.present, pair.accepting), overloaded, guards)
    while not ended(pair):
        before = pair.covering.covered_set(pair.present, pair.accepting)
        card = second_choice(pair, before, overloaded, guards)
        if card is None:
            return
        number = card.subscription
        pair.offload(number, card.subscribers)
        newly = pair.covering.descendants(number, pair.present) & ~before
        if newly:
            phase_one(pair, newly, overloaded, guards)


def difference(pair: Pair) -> float:
    return pair.ours.output_ratio - pair.theirs.output_ratio


def ended(pair: Pair) -> bool:
    found = difference(pair)
    return found < 0 or abs(found) < pair.parameters.balance_percentage


# Phase I.


def phase_one(pair: Pair, covered: int, overloaded: bool, guards: Guards) -> None:
    while not ended(pair):
        card = first_choice(pair, covered, overloaded, guards)
        if card is None:
            return
        pair.offload(card.subscription, card.subscribers)


def first_choice(pair: Pair, covered: int, overloaded: bool, guards: Guards) -> ReportCard | None:
    """Of the first type that has an acceptable one, the difference closest to 0."""
    for cards in by_type(report_cards(pair, covered & set_of(pair.candidates), overloaded, guards)):
        card = choice(sorted(cards, key=_ascending), difference(pair), overloaded)
        if card is not None:
            return card
    return None


def by_type(cards: Sequence[ReportCard]) -> tuple[list[ReportCard], list[ReportCard], list[ReportCard]]:
    """Type I saves input here, type II would if all of its subscribers could go, type III cannot.

    Each in descending order of the rate saved, then in ascending order of the difference.
    """
    types: tuple[list[ReportCard], list[ReportCard], list[ReportCard]] = ([], [], [])
    for card in sorted(cards, key=lambda card: (-card.reduced, card.difference, card.subscription)):
        types[0 if card.reduced > 0 else 1 if card.reducible > 0 else 2].append(card)
    return types


def _ascending(card: ReportCard) -> tuple[float, float]:
    return card.difference, -card.reduced


# Phase II.


def second_choice(pair: Pair, covered: int, overloaded: bool, guards: Guards) -> ReportCard | None:
    cards = report_cards(pair, set_of(pair.candidates) & ~covered, overloaded, guards)
    ranked = sorted(cards, key=lambda card: (card.difference, -card.gamma, card.subscription))
    return choice(ranked, difference(pair), overloaded)


def gamma(rate: float, output: float, count: int, extra: float) -> float:
    """Equation 4.19: much output for little extra input; without any extra input there is no better one."""
    return rate * output * count / extra if extra > 0 else float("inf")


# Both.


def report_cards(pair: Pair, numbers: int, overloaded: bool, guards: Guards) -> list[ReportCard]:
    cards = (report_card(pair, each, overloaded, guards) for each in members(numbers) if pair.profile.vector(each))
    return [card for card in cards if card.subscribers > 0]


def report_card(pair: Pair, number: int, overloaded: bool, guards: Guards) -> ReportCard:
    output, extra = pair.output(number), pair.extra(number)
    in_css = not pair.covering.above[number] & pair.present
    reducible = pair.reducible(number) if in_css else 0.0
    after = effects(pair, number, output, extra, reducible)
    near = pair.parameters.balance_percentage

    def balanced(count: int) -> bool:
        found = after(count)
        difference = found.our_output - found.their_output
        return difference < 0 or abs(difference) < near

    def excluded(count: int) -> bool:
        found = after(count)
        return any(each.excludes(pair, found, overloaded) for each in guards)

    count = amount(most(pair, number), balanced, excluded if guards else None)
    found = after(count)
    reduced = reducible if count == pair.subscribers[number] else 0.0
    return ReportCard(
        number,
        count,
        found.our_output - found.their_output,
        pair.covering.covered(number, pair.accepting),
        reduced,
        output,
        reducible=reducible,
        gamma=gamma(pair.rate(number), output, count, extra),
    )


def effects(pair: Pair, number: int, output: float, extra: float, reducible: float) -> Callable[[int], After]:
    ours, theirs, subscribers = pair.ours, pair.theirs, pair.subscribers[number]

    def after(count: int) -> After:
        reduced = reducible if count == subscribers else 0.0
        return After(
            ours.input_after(-count, -reduced),
            theirs.input_after(count, extra),
            ours.output_after(-output * count),
            theirs.output_after(output * count),
        )

    return after
