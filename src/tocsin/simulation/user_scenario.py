"""Users of a drawn network: some of its clients log in, some of these over REST, and channels have grants."""

from __future__ import annotations

from random import Random

from msgspec import structs

from tocsin.config import IdentityConfig
from tocsin.simulation.identity.people import Rule
from tocsin.simulation.scenario import ClientPlan, Scenario

#: The share of the networks that have users.
SHARE = 0.35
RULES: tuple[Rule, ...] = ("anonymous", "user", "user", "sub", "roles")


def draw_users(rng: Random, scenario: Scenario) -> Scenario:
    """The same network with users, or as it is."""
    if rng.random() >= SHARE:
        return scenario
    names = list(scenario.channels[0].size)  # so that a grant can require that a kind is the user's own
    skew = rng.choice((0.0, 1.0))
    identity = IdentityConfig(
        token_seconds=rng.choice((6.0, 12.0, 25.0, 3_600.0)),
        clock_skew=skew,
        registrations=6_000.0,
        guesses=6_000.0,
        guesses_per_address=6_000.0,
    )
    clients = [_user(rng, plan, names, number) for number, plan in enumerate(scenario.clients)]
    if not any(plan.user for plan in clients):
        clients[0] = structs.replace(clients[0], user=names[0], device="d0")
    rules = None
    anonymous = scenario.broker.anonymous
    if rng.random() < 0.5:
        rules = {channel.name: rng.choice(RULES) for channel in scenario.channels}
        anonymous = ""
    return structs.replace(
        scenario,
        clients=clients,
        broker=structs.replace(scenario.broker, identity=identity, anonymous=anonymous),
        coordinator=structs.replace(scenario.coordinator, identity=identity),
        rules=rules,
    )


def _user(rng: Random, plan: ClientPlan, names: list[str], number: int) -> ClientPlan:
    if rng.random() < 0.3:
        return plan
    name, rest, forgetful = rng.choice(names), rng.random() < 0.4 and number > 0, rng.random() < 0.5
    return structs.replace(plan, user=name, device=f"d{number}", rest=rest, forgetful=forgetful)
