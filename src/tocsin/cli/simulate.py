"""``tocsin simulate``: experiments under a simulated clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from tocsin.cli.output import Json, print_json, print_line, print_table
from tocsin.cli.progress import track
from tocsin.cli.whatif import what_if
from tocsin.errors import UserError

# Imported where it is needed: NumPy and all state machines would slow down the start of every other command.
if TYPE_CHECKING:
    from tocsin.simulation.campaign import Summary
    from tocsin.simulation.run import Outcome


class FileFirst(TyperGroup):
    """``tocsin simulate scenario.toml`` is short for ``tocsin simulate run scenario.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        found: list[str] = super().parse_args(ctx, args)
        return found


simulate = typer.Typer(
    cls=FileFirst, no_args_is_help=True, help="Run the production state machines under a simulated clock."
)
simulate.command("run")(what_if)

#: Seeds with a violation that are shown in detail.
DETAILED = 3


@simulate.callback()
def root() -> None:
    """Run the production state machines under a simulated clock."""


@simulate.command("faults")
def faults(
    runs: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many runs.")] = 100,
    seed: Annotated[
        int, typer.Option(min=0, max=2**53, help="Seed of the first run; the others have the next seeds.")
    ] = 1,
    jobs: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0: one per core.")] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Run this seed only, and print its events.")] = False,
    only: Annotated[str, typer.Option(help="Run this seed only, with these faults of its script, such as 0,3,4.")] = "",
    json: Json = False,
) -> None:
    """Simulate random networks with random faults, and check that nothing is lost.

    Each run draws a network, its load and a script of faults: brokers that die, freeze, join and are drained,
    partitions, slow subscribers, coordinator restarts, also in the middle of migrations. Then the faults end, the
    network settles, and the run checks every guarantee. The exit code is 1 if one was violated; the seed replays it.

    \b
    Example:
      tocsin simulate faults --runs 1000
      tocsin simulate faults --seed 1234 --trace
    """
    if trace or only:
        _one(seed, places(only), trace, json)
    else:
        _many(runs, seed, jobs or os.cpu_count() or 1, json)


def places(text: str) -> list[int] | None:
    if not text:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"{text!r} is not a list of numbers", hint="like --only 0,3,4") from None


def _one(seed: int, only: list[int] | None, trace: bool, json: bool) -> None:
    from tocsin.simulation.campaign import attempt
    from tocsin.simulation.network.trace import Trace
    from tocsin.simulation.run import run, script_of

    there = len(script_of(seed))
    for place in only or ():
        if not 0 <= place < there:
            raise UserError(f"seed {seed} has no fault {place}", hint=f"its faults are 0 to {there - 1}")
    if not trace:
        found = attempt(seed, only)
    else:
        write = None if json else print_line
        found = run(seed, only=only, trace=lambda clock: Trace(clock, True, write=write))
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        for place, each in enumerate(found.script):
            print_line(f"fault {place if only is None else only[place]}: {each}")
        for violation in found.violations:
            print_line(f"violation: {violation}")
        if not found.violations:
            print_line(f"seed {seed}: {found.notifications:,} notifications checked, every promise kept")
    if found.violations:
        raise typer.Exit(1)


def _many(runs: int, seed: int, jobs: int, json: bool) -> None:
    from tocsin.simulation.campaign import Summary, outcomes

    summary: Summary = Summary()
    broken: list[Outcome] = []
    with track(runs) as update:
        for found in outcomes(seed, runs, jobs):
            summary.add(found)
            if found.violations:
                broken.append(found)
            update(summary.runs, f"{runs:,} runs, {len(broken)} violations")
    details = [_detail(each) for each in broken[:DETAILED]]
    if json:
        print_json(msgspec.to_builtins(summary) | {"details": details})
    else:
        _print(summary, details)
    if broken:
        raise typer.Exit(1)


def _detail(found: Outcome) -> dict[str, object]:
    from tocsin.simulation.campaign import command, last_lines, shrink

    first = found.violations[0]
    only = shrink(found.seed, first.invariant)
    return {
        "seed": found.seed,
        "invariant": first.invariant,
        "what": first.what,
        "faults": [found.script[place] for place in only] if found.script else [],
        "last": last_lines(found.seed, only),
        "replay": command(found.seed, only),
    }


def _print(summary: Summary, details: list[dict[str, object]]) -> None:
    for each in details:
        print_line(f"seed {each['seed']} violates “{each['invariant']}”: {each['what']}")
        for name, lines in (("the faults that cause it", each["faults"]), ("the end of its trace", each["last"])):
            print_line(f"  {name}:")
            for line in lines if isinstance(lines, list) else ():
                print_line(f"    {line}")
        print_line(f"  replay: {each['replay']}\n")
    rows = [
        ["runs", f"{summary.runs:,}"],
        ["simulated", f"{summary.seconds / 3600:,.1f} h"],
        ["events", f"{summary.events:,}"],
        ["faults", f"{sum(summary.faults.values()):,}"],
        ["migrations", f"{summary.moves:,}"],
        ["connections", f"{summary.connects:,}"],
        ["notifications checked", f"{summary.notifications:,}"],
        ["duplicates dropped", f"{summary.duplicates:,}"],
        ["gaps announced", f"{summary.gaps:,}"],
        ["seeds with a violation", f"{len(summary.violations):,}"],
    ]
    print_table(["", "in all"], rows, [False, True])
    print_table(["fault", "times"], sorted(summary.faults.items()), [False, True])
    for seed, violation in summary.violations[DETAILED:20]:
        print_line(f"seed {seed}: {violation}")
