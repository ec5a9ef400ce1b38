"""One run: a seed becomes a key space, its items and a script of faults; faults end, it settles, and is checked."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from msgspec import Struct, field

from tocsin.overlay.keyspace import messages as ms
from tocsin.simulation.keyspaces import script as faults
from tocsin.simulation.keyspaces.invariants import Violation, unsettled
from tocsin.simulation.keyspaces.node import Balance
from tocsin.simulation.keyspaces.scenario import draw
from tocsin.simulation.keyspaces.world import World
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.random_streams import RandomStreams

#: Seconds until the peers have joined, in which faults begin, and in which they end.
BEGIN, TROUBLE, HEALED = 4.0, 13.0, 17.0
#: Seconds between two looks, and after which it must have been quiet twice in a row.
LOOK, DEADLINE = 4.0, 200.0


class Outcome(Struct, frozen=True):
    seed: int
    kind: str
    violations: list[Violation]
    script: list[str]
    events: int = 0
    seconds: float = 0.0
    stored: int = 0
    requests: int = 0
    failed: int = 0
    fingerprint: str = ""
    lines: list[str] = field(default_factory=list)


def run(
    kind: str,
    seed: int,
    *,
    trace: Callable[[Clock], Trace] = Trace,
    only: list[int] | None = None,
    balance: Balance | None = None,
) -> Outcome:
    """``only``: the faults of the script, by their place in it, that are to happen. ``balance``: peers run hosts."""
    chance = RandomStreams(seed)
    scenario = draw(kind, chance.of(f"scenario {kind}"))
    planned = faults.script(chance.of(f"faults {kind}"), BEGIN, TROUBLE)
    planned = [fault for place, fault in enumerate(planned) if only is None or place in only]
    world = World(scenario, chance, trace, balance)
    faults.plant(world, planned)
    world.start()
    rng = chance.of("times")
    for number in range(scenario.items):
        world.clock.at(rng.uniform(1.0, TROUBLE), world.put, number)
        world.clock.at(rng.uniform(BEGIN, TROUBLE), world.get)
    for number in range(4):
        world.clock.at(rng.uniform(1.0, TROUBLE), world.subscribe, number)
    world.clock.run(HEALED)
    world.heal()
    for number in range(4):
        world.clock.at(HEALED + 10.0, world.subscribe, number)
    broken = [Violation("confirmed items have copies", each) for each in world.broken]
    violations = broken or settle(world) or last_words(world)
    return Outcome(
        seed,
        kind,
        violations,
        [str(fault) for fault in planned],
        world.clock.events,
        world.clock.now,
        len(world.stored),
        world.requests,
        world.failed,
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


def last_words(world: World) -> list[Violation]:
    """Every confirmed item is found by a peer that looks it up."""
    lost = list[Violation]()
    for (ring, id), item in [each for each in world.stored.items() if each[1].span is None]:

        def found(body: object, id: str = id) -> None:
            if not isinstance(body, ms.Found):
                lost.append(Violation("every item is found", f"the lookup of {id} ended with {type(body).__name__}"))

        world.request(ring, item.point, ms.Get(id), found)
    world.clock.run(world.clock.now + 15.0)
    if world.open:
        lost.append(Violation("every lookup ends", f"{len(world.open)} requests have no answer"))
    return lost


def attempt(kind: str, seed: int, only: list[int] | None = None) -> Outcome:
    """A state machine that raises an error breaks the first rule of all."""
    try:
        return run(kind, seed, only=only)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
        return Outcome(seed, kind, [Violation("nothing crashes", f"{type(error).__name__}: {error} ({where})")], [])
