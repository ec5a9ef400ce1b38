"""The strategies that fit brokers, by name, with their settings.

Left out: strategies that cut the range of a peer (Gupta, EventCloud) and leave and rejoin (Bharambe), since a broker
has no place in a key space: any subscriber can be at any broker.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tocsin.balancing.brokers.broker_load import DRAIN, LOAD, SUBSCRIBERS
from tocsin.balancing.catalogue.blueprint import MAIN, Blueprint, StageParts
from tocsin.balancing.catalogue.places import BROKERS, catalogue
from tocsin.balancing.catalogue.use import Use, use
from tocsin.balancing.host.host import Composition
from tocsin.errors import NotFound, UserError

#: What a strategy has beside the stages that all have: its detector and balancer, if any, and its exchanger.
Own = tuple[Use | None, Use | None, Use]


def rao_one_to_one(slack: float = 0.05, threshold: float = 0.0) -> Own:
    return use("heavy-or-light", slack=slack, threshold=threshold), use("one-to-one"), use("silent")


def rao_one_to_many(slack: float = 0.05, threshold: float = 0.0, directories: int = 1) -> Own:
    exchanger = use("light-to-directory", directories=directories)
    return use("heavy-or-light", slack=slack, threshold=threshold), use("one-to-many"), exchanger


def rao_many_to_many(slack: float = 0.05, threshold: float = 0.0, directories: int = 1) -> Own:
    exchanger = use("all-to-directory", directories=directories)
    return use("directory", slack=slack, threshold=threshold), use("many-to-many"), exchanger


def sampling(alpha: float = 1.4143, samples: int = 2, ttl: int = 3) -> Own:
    exchanger = use("sampling", samples=samples, ttl=ttl)
    return use("local-load", alpha=alpha), use("half-the-difference"), exchanger


def placement_only() -> Own:
    """Newcomers only; the exchange serves a broker that is being drained."""
    return None, None, use("pull-from-random")


STRATEGIES: dict[str, Callable[..., Own]] = {
    "rao-one-to-one": rao_one_to_one,
    "rao-one-to-many": rao_one_to_many,
    "rao-many-to-many": rao_many_to_many,
    "bharambe": sampling,
    "byers": placement_only,
}
#: Settings of all strategies. ``choices``: brokers that a newcomer is compared at; 1 leaves it where it connects.
COMMON: dict[str, float] = {
    "balance_every": 10.0,
    "exchange_every": 5.0,
    "cool_down": 60.0,
    "sessions": 2.0,
    "choices": 2.0,
}
#: Seconds for each step of a session: a subscriber has 45 to migrate.
TIMEOUT = 60.0


def settings_of(name: str) -> dict[str, float]:
    """All settings of a strategy, with their defaults."""
    if name not in STRATEGIES:
        raise NotFound("strategy", name, hint=f"among brokers there are: {', '.join(STRATEGIES)}")
    own = {each.name: float(each.default) for each in inspect.signature(STRATEGIES[name]).parameters.values()}
    return own | COMMON


def blueprint(name: str, settings: Mapping[str, float]) -> Blueprint:
    """The names of its components."""
    given = checked(name, settings)
    detector, balancer, exchanger = STRATEGIES[name](**{key: given[key] for key in given if key not in COMMON})
    stages = [
        StageParts("drain", DRAIN, use("draining"), use("give-away"), fixed=True),
        StageParts("newcomers", SUBSCRIBERS, use("on-insertion"), use("least-loaded", choices=given["choices"])),
    ]
    if detector is not None and balancer is not None:
        stages.append(StageParts(MAIN, LOAD, detector, balancer))
    return Blueprint(tuple(stages), exchanger, (use("at-once", sessions=given["sessions"]), use("never-above")))


def checked(name: str, settings: Mapping[str, float]) -> dict[str, float]:
    """All settings; refuses what does not fit, with what would."""
    known = settings_of(name)
    for each, value in settings.items():
        if each not in known:
            hint = ", ".join(f"{setting} ({default:g})" for setting, default in known.items())
            raise UserError(f"{name} has no setting {each!r}", hint=f"it has: {hint}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{each} of {name} is a number, not {value!r}", hint=f"its default is {known[each]:g}")
    given = known | dict(settings)
    for each in ("balance_every", "exchange_every"):
        if not 0.0 < given[each] < float("inf"):
            raise UserError(f"{each} of {name} is {given[each]:g}", hint="it is a number of seconds above 0")
    if given["cool_down"] < 0 or given["sessions"] < 1 or given["choices"] < 1:
        raise UserError(
            f"cool_down {given['cool_down']:g}, sessions {given['sessions']:g}, choices {given['choices']:g}",
            hint="cool_down is 0 or more, sessions and choices are 1 or more",
        )
    return given


def make(name: str, settings: Mapping[str, float], components: Mapping[str, Any] | None = None) -> Composition:
    """``components``: those that replace the strategy's own. Refuses what does not fit, with what would."""
    given = checked(name, settings)
    _, parts = catalogue(BROKERS).compose(blueprint(name, settings), components)
    return Composition(
        parts.concerns,
        parts.exchanger,
        parts.guards or (),
        exchange_every=given["exchange_every"],
        balance_every=given["balance_every"],
        lifetime=3 * max(given["exchange_every"], given["balance_every"]),
        timeout=TIMEOUT,
        units=parts.units,
        threshold=getattr(parts.concerns[-1].detector, "threshold", None),
        advises=parts.advises,
    )
