"""One run: a seed becomes an overlay, its clients and a script of faults; faults end, it settles, and is checked."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from msgspec import Struct, field

from tocsin.simulation.content import script as faults
from tocsin.simulation.content.invariants import unsettled, wasted
from tocsin.simulation.content.scenario import draw
from tocsin.simulation.content.world import World
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.violation import Violation

#: Seconds until the clients are there, in which faults begin, and in which they end.
BEGIN, TROUBLE, HEALED = 12.0, 30.0, 34.0
#: Seconds between two looks, and after which it must have been quiet twice in a row.
LOOK, DEADLINE = 4.0, 80.0


class Outcome(Struct, frozen=True):
    """``promised``: publications that some subscriber had to get; ``deliveries``: all."""

    seed: int
    violations: list[Violation]
    script: list[str]
    kinds: list[str] = field(default_factory=list)
    events: int = 0
    seconds: float = 0.0
    publications: int = 0
    deliveries: int = 0
    promised: int = 0
    fingerprint: str = ""
    lines: list[str] = field(default_factory=list)


def script_of(seed: int) -> list[faults.Fault]:
    return faults.script(RandomStreams(seed).of("faults"), BEGIN, TROUBLE)


def run(seed: int, *, trace: Callable[[Clock], Trace] = Trace, only: list[int] | None = None) -> Outcome:
    """``only``: the faults of the script, by their place in it, that are to happen."""
    chance = RandomStreams(seed)
    scenario = draw(chance.of("scenario"))
    planned = [fault for place, fault in enumerate(script_of(seed)) if only is None or place in only]
    world = World(scenario, chance, trace)
    faults.plant(world, planned)
    world.start()
    rng = chance.of("times")
    for _ in range(scenario.publishers):
        world.clock.at(rng.uniform(0.0, 2.0), world.add_client, "publisher", rng)
    for _ in range(scenario.subscribers):
        world.clock.at(rng.uniform(0.0, 2.5), world.add_client, "subscriber", rng)
    world.clock.at(3.0, world.publish_every, 0.9, HEALED)
    world.clock.run(HEALED)
    world.heal()
    violations = settle(world) or last_publications(world)
    return Outcome(
        seed,
        world.witness.violations + violations,
        [str(fault) for fault in planned],
        [fault.kind for fault in planned],
        world.clock.events,
        world.clock.now,
        len(world.witness.values),
        world.witness.deliveries,
        world.witness.promised,
        world.trace.fingerprint if world.trace else "",
        list(world.trace.lines),
    )


def settle(world: World) -> list[Violation]:
    quiet, wrong = 0, list[Violation]()
    while quiet < 2:
        world.clock.run(world.clock.now + LOOK)
        wrong = list(unsettled(world))
        quiet = 0 if wrong else quiet + 1
        if wrong and world.clock.now > DEADLINE:
            break
    return wrong


def last_publications(world: World) -> list[Violation]:
    """All subscribers have all that matches, and no broker has more than it needs."""
    world.clock.run(world.clock.now + faults.CALM + 1.0)
    world.passed.clear()
    for _ in range(3):
        world.publish()
        world.clock.run(world.clock.now + 1.0)
    waste = list(wasted(world))
    world.clock.run(world.clock.now + faults.CALM)
    world.witness.finish()
    return waste


def attempt(seed: int, only: list[int] | None = None) -> Outcome:
    """A state machine that raises an error breaks the first rule of all."""
    try:
        return run(seed, only=only)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
        return Outcome(seed, [Violation("nothing crashes", f"{type(error).__name__}: {error} ({where})")], [])
