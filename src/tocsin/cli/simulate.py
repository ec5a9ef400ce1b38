"""``tocsin simulate``: experiments under a simulated clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from tocsin.cli.campaign import (
    DETAILED,
    Jobs,
    Only,
    Runs,
    Seed,
    Traced,
    check_places,
    places,
    print_campaign,
    print_run,
)
from tocsin.cli.content import content, workload
from tocsin.cli.output import Json, print_json, print_line
from tocsin.cli.progress import track
from tocsin.cli.whatif import what_if

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

simulate.command("content")(content)
simulate.command("workload")(workload)


@simulate.callback()
def root() -> None:
    """Run the production state machines under a simulated clock."""


@simulate.command("faults")
def faults(
    runs: Runs = 100,
    seed: Seed = 1,
    jobs: Jobs = 0,
    trace: Traced = False,
    only: Only = "",
    peers: Annotated[bool, typer.Option("--peers", help="Networks whose brokers balance among themselves.")] = False,
    json: Json = False,
) -> None:
    """Simulate random networks with random faults, and check that nothing is lost.

    Each run draws a network, its load and a script of faults: brokers that die, freeze, join and are drained,
    partitions, slow subscribers, coordinator restarts, also in the middle of migrations; users whose tokens, passwords
    and grants end. Then the faults end, the
    network settles, and the run checks every guarantee. The exit code is 1 if one was violated; the seed replays it.

    \b
    Example:
      tocsin simulate faults --runs 1000
      tocsin simulate faults --seed 1234 --trace
    """
    if trace or only:
        _one(seed, places(only), trace, peers, json)
    else:
        _many(runs, seed, jobs or os.cpu_count() or 1, peers, json)


def _one(seed: int, only: list[int] | None, trace: bool, peers: bool, json: bool) -> None:
    from tocsin.simulation.campaign import attempt
    from tocsin.simulation.network.trace import Trace
    from tocsin.simulation.run import run, script_of

    check_places(seed, only, len(script_of(seed, peers)))
    if not trace:
        found = attempt(seed, only, peers)
    else:
        write = None if json else print_line
        found = run(seed, only=only, peers=peers, trace=lambda clock: Trace(clock, True, write=write))
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        kept = f"{found.notifications:,} notifications checked"
        print_run(seed, found.script, only, found.violations, kept)
    if found.violations:
        raise typer.Exit(1)


def _many(runs: int, seed: int, jobs: int, peers: bool, json: bool) -> None:
    from tocsin.simulation.campaign import Summary, outcomes

    summary: Summary = Summary()
    broken: list[Outcome] = []
    with track(runs) as update:
        for found in outcomes(seed, runs, jobs, peers):
            summary.add(found)
            if found.violations:
                broken.append(found)
            update(summary.runs, f"{runs:,} runs, {len(broken)} violations")
    details = [_detail(each, peers) for each in broken[:DETAILED]]
    if json:
        print_json(msgspec.to_builtins(summary) | {"details": details})
    else:
        _print(summary, details)
    if broken:
        raise typer.Exit(1)


def _detail(found: Outcome, peers: bool) -> dict[str, object]:
    from tocsin.simulation.campaign import command, last_lines, shrink

    first = found.violations[0]
    only = shrink(found.seed, first.invariant, peers)
    return {
        "seed": found.seed,
        "invariant": first.invariant,
        "what": first.what,
        "faults": [found.script[place] for place in only] if found.script else [],
        "last": last_lines(found.seed, only, peers),
        "replay": command(found.seed, only, peers),
    }


def _print(summary: Summary, details: list[dict[str, object]]) -> None:
    rows = [
        ["runs", f"{summary.runs:,}"],
        ["simulated", f"{summary.seconds / 3600:,.1f} h"],
        ["events", f"{summary.events:,}"],
        ["faults", f"{sum(summary.faults.values()):,}"],
        ["migrations", f"{summary.moves:,}"],
        ["connections", f"{summary.connects:,}"],
        ["users", f"{summary.users:,}"],
        ["polls over REST", f"{summary.polls:,}"],
        ["revocations", f"{summary.revocations:,}"],
        ["notifications checked", f"{summary.notifications:,}"],
        ["duplicates dropped", f"{summary.duplicates:,}"],
        ["gaps announced", f"{summary.gaps:,}"],
        ["seeds with a violation", f"{len(summary.violations):,}"],
    ]
    print_campaign(rows, summary.faults, details, summary.violations)
