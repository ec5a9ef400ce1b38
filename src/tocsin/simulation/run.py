"""One run: a seed becomes a network, its load and a script of faults; faults end, it settles, and is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from tocsin.simulation import faults, user_faults
from tocsin.simulation.feed_scenario import draw_feeds
from tocsin.simulation.invariants import promises, unsettled
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.peers import faults as peer_faults
from tocsin.simulation.peers.faults import SessionFault
from tocsin.simulation.peers.invariants import agreements, unsettled_peers
from tocsin.simulation.peers.scenario import draw_peers
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import Scenario, draw
from tocsin.simulation.user_scenario import draw_users
from tocsin.simulation.violation import Violation

#: Seconds in which faults begin, in which they end, and in which results go on after that.
TROUBLE, HEALED, STEADY = 28.0, 32.0, 44.0
#: Seconds after which the coordinator ends, where it does so for good: everybody is placed.
ALONE = 5.0
#: Seconds between two looks at whether it is quiet, and after which it must have been.
LOOK, DEADLINE = 5.0, 900.0

AnyFault = faults.Fault | SessionFault


class Outcome(Struct, frozen=True):
    """What came of a seed. ``faults`` are those of the script, by kind; ``script`` says all about them."""

    seed: int
    violations: list[Violation]
    events: int
    seconds: float
    faults: dict[str, int]
    script: list[str]
    moves: int
    connects: int
    notifications: int
    gaps: int
    duplicates: int
    users: int = 0
    polls: int = 0
    revocations: int = 0
    fingerprint: str = ""
    lines: list[str] = field(default_factory=list)


def run(
    seed: int,
    *,
    only: list[int] | None = None,
    trace: Callable[[Clock], Trace] = Trace,
    peers: bool = False,
) -> Outcome:
    """``only``: the faults of the script, by their place in it, that are to happen. ``peers``: brokers balance among
    themselves."""
    chance = RandomStreams(seed)
    scenario, script = scenario_of(seed, peers), script_of(seed, peers)
    if only is not None:
        script = [fault for place, fault in enumerate(script) if place in only]
    world = Deployment(scenario, chance, trace)
    faults.plant(world, [each for each in script if isinstance(each, faults.Fault)], HEALED)
    peer_faults.plant(world, [each for each in script if isinstance(each, SessionFault)], HEALED)
    if scenario.alone:
        world.clock.at(ALONE, _end_coordinator, world)
    world.start()
    world.clock.run(HEALED)
    world.heal()
    world.clock.run(STEADY)
    world.calm()
    violations = settle(world) or last_words(world)
    return _outcome(seed, world, violations, script)


def scenario_of(seed: int, peers: bool = False) -> Scenario:
    chance = RandomStreams(seed)
    rng = chance.of("scenario")
    drawn = draw_peers(rng) if peers else draw_users(chance.of("credentials"), draw(rng))
    return draw_feeds(chance.of("feeds"), drawn)


def script_of(seed: int, peers: bool = False) -> list[AnyFault]:
    chance, scenario = RandomStreams(seed), scenario_of(seed, peers)
    found = faults.script(chance.of("faults"), TROUBLE, tight=scenario.broker.limits.connections < 100_000)
    if not peers:
        found += user_faults.script(chance.of("faults of users"), TROUBLE) if scenario.users else []
        return [*sorted(found, key=lambda fault: fault.at)]
    # A coordinator that ends for good does not finish draining a broker, and brokers are enough to die.
    kept = [each for each in found[:4] if not (scenario.alone and each.kind in ("drain", "retire"))]
    return [*kept, *peer_faults.script(chance.of("session faults"), TROUBLE)]


def _end_coordinator(world: Deployment) -> None:
    world.retired.add(world.coordinator.name)
    if world.coordinator.up:
        world.coordinator.die()


def settle(world: Deployment) -> list[Violation]:
    """Until it is quiet twice in a row; what is wrong if it never is."""
    quiet, wrong = 0, list[Violation]()
    while quiet < 2:
        world.clock.run(world.clock.now + LOOK)
        wrong = [*unsettled(world), *unsettled_peers(world)]
        quiet = 0 if wrong else quiet + 1
        if wrong and world.clock.now > DEADLINE:
            break
    broken = [*promises(world, whole=not wrong), *agreements(world)]
    return broken + wrong


def last_words(world: Deployment) -> list[Violation]:
    """Every connected client receives the results that are found now."""
    for _ in range(2):
        for channel in world.cluster.data.channels.values():
            world.cluster.execute(channel, everything=True)
        world.clock.run(world.clock.now + 2.0)
    until = world.clock.now + 30.0
    while (violations := list(promises(world, whole=True))) and world.clock.now < until:
        world.clock.run(world.clock.now + 2.0)
    return violations


def _outcome(seed: int, world: Deployment, violations: list[Violation], script: list[AnyFault]) -> Outcome:
    interests = [each for app in world.apps for each in app.interests.values()]
    return Outcome(
        seed,
        violations,
        world.clock.events,
        world.clock.now,
        dict(Counter(fault.kind for fault in script)),
        [str(fault) for fault in script],
        world.coordinator.migrations + world.peers.migrations,
        sum(client.state.connects for client in world.clients.values()),
        sum(len(each.received) for each in interests),
        sum(len(each.missed) for each in interests),
        sum(client.state.subscriptions.duplicates for client in world.clients.values()),
        sum(app.account is not None for app in world.apps),
        sum(user.polls for user in world.rest_users.values()),
        len(world.people.revoked),
        world.trace.fingerprint if world.trace else "",
        list(world.trace.lines),
    )
