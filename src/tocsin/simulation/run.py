"""One run: a seed becomes a network, its load and a script of faults; faults end, it settles, and is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct, field

from tocsin.simulation import faults
from tocsin.simulation.invariants import Violation, promises, unsettled
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.nodes.deployment import Deployment
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import draw

#: Seconds in which faults begin, in which they end, and in which results go on after that.
TROUBLE, HEALED, STEADY = 28.0, 32.0, 44.0
#: Seconds between two looks at whether it is quiet, and after which it must have been.
LOOK, DEADLINE = 5.0, 900.0


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
    fingerprint: str = ""
    lines: list[str] = field(default_factory=list)


def run(
    seed: int,
    *,
    only: list[int] | None = None,
    trace: Callable[[Clock], Trace] = Trace,
) -> Outcome:
    """``only``: the faults of the script, by their place in it, that are to happen."""
    chance = RandomStreams(seed)
    scenario, script = draw(chance.of("scenario")), script_of(seed)
    if only is not None:
        script = [fault for place, fault in enumerate(script) if place in only]
    world = Deployment(scenario, chance, trace)
    faults.plant(world, script, HEALED)
    world.start()
    world.clock.run(HEALED)
    world.heal()
    world.clock.run(STEADY)
    world.calm()
    violations = settle(world) or last_words(world)
    return _outcome(seed, world, violations, script)


def script_of(seed: int) -> list[faults.Fault]:
    chance = RandomStreams(seed)
    return faults.script(
        chance.of("faults"), TROUBLE, tight=draw(chance.of("scenario")).broker.limits.connections < 100_000
    )


def settle(world: Deployment) -> list[Violation]:
    """Until it is quiet twice in a row; what is wrong if it never is."""
    quiet, wrong = 0, list[Violation]()
    while quiet < 2:
        world.clock.run(world.clock.now + LOOK)
        wrong = list(unsettled(world))
        quiet = 0 if wrong else quiet + 1
        if wrong and world.clock.now > DEADLINE:
            break
    broken = list(promises(world, whole=not wrong))
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


def _outcome(seed: int, world: Deployment, violations: list[Violation], script: list[faults.Fault]) -> Outcome:
    interests = [each for client in world.clients.values() for each in client.interests.values()]
    return Outcome(
        seed,
        violations,
        world.clock.events,
        world.clock.now,
        dict(Counter(fault.kind for fault in script)),
        [str(fault) for fault in script],
        world.coordinator.migrations,
        sum(client.state.connects for client in world.clients.values()),
        sum(len(each.received) for each in interests),
        sum(len(each.missed) for each in interests),
        sum(client.state.subscriptions.duplicates for client in world.clients.values()),
        world.trace.fingerprint if world.trace else "",
        list(world.trace.lines),
    )
