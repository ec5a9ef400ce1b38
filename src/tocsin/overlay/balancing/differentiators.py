"""The paper's table 2: what makes each strategy different, read from the components that it runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from random import Random
from typing import Any

from tocsin.overlay.balancing.strategies import STRATEGIES, Strategy, make
from tocsin.overlay.keyspace.chord.chord import Chord
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.peer import Peer

COLUMNS = (
    "criteria",
    "load state estimation",
    "decision",
    "method",
    "load moved",
    "target",
    "load information exchange",
    "recipients",
)


def sentence(thing: Any) -> str:
    """The first one of its documentation."""
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".")


def each_once(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def pulls(balancer: Any) -> bool:
    """It asks other peers in the middle of an iteration."""
    return "Ask" in type(balancer).select_target.__code__.co_names


def cells(strategy: Strategy) -> list[str]:
    composition = strategy.composition
    balancers = [each.balancer for each in composition.concerns]
    return [
        each_once(each.criterion for each in composition.concerns),
        each_once(sentence(type(each.detector)) for each in composition.concerns),
        each_once(sorted(strategy.triggers, reverse=True)),
        each_once(sorted({kind.value for each in balancers for kind in each.actions})),
        each_once(sentence(each.select_load_to_move) for each in balancers),
        each_once(sentence(each.select_target) for each in balancers),
        each_once(
            [sentence(type(composition.exchanger)), *(sentence(type(each)) for each in balancers if pulls(each))]
        ),
        sentence(composition.exchanger.recipients),
    ]


def table() -> dict[str, list[str]]:
    """Of all strategies, by their names."""
    peer = Peer("p", {"ring": Chord()}, Settings(), Random(0))
    return {name: cells(make(name, peer, "ring")) for name in STRATEGIES}
