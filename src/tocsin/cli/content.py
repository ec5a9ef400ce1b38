"""``tocsin simulate content`` and ``tocsin simulate workload``: heads and edges under a simulated clock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

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
from tocsin.cli.output import Json, print_json, print_line, print_table
from tocsin.cli.progress import track
from tocsin.errors import ParseError, SystemFailure

if TYPE_CHECKING:
    from tocsin.simulation.content.campaign import Summary
    from tocsin.simulation.content.run import Outcome
    from tocsin.simulation.content.workload.run import Result


def content(
    runs: Runs = 100, seed: Seed = 1, jobs: Jobs = 0, trace: Traced = False, only: Only = "", json: Json = False
) -> None:
    """Simulate random overlays of heads and edges with random faults, and check what they promise.

    Each run draws a tree of brokers, publishers and subscribers by content, and a script: brokers that die, freeze,
    join and leave, partitions, lost and repeated messages, broken links, refused cycles, clients that come and go. Then
    the faults end, and the run checks routing tables, roles, and that each publication arrived once and in order. The
    exit code is 1 if a check failed; the seed replays it.

    \b
    Example:
      tocsin simulate content --runs 1000
      tocsin simulate content --seed 1234 --trace
    """
    if trace or only:
        _one(seed, places(only), trace, json)
    else:
        _many(runs, seed, jobs or os.cpu_count() or 1, json)


def _one(seed: int, only: list[int] | None, trace: bool, json: bool) -> None:
    from tocsin.simulation.content.run import attempt, run, script_of
    from tocsin.simulation.network.trace import Trace

    check_places(seed, only, len(script_of(seed)))
    if not trace:
        found = attempt(seed, only)
    else:
        write = None if json else print_line
        found = run(seed, only=only, trace=lambda clock: Trace(clock, True, write=write))
    if json:
        print_json(msgspec.to_builtins(found))
    else:
        kept = f"{found.promised:,} promised publications checked"
        print_run(seed, found.script, only, found.violations, kept)
    if found.violations:
        raise typer.Exit(1)


def _many(runs: int, seed: int, jobs: int, json: bool) -> None:
    from tocsin.simulation.content.campaign import Summary, outcomes

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
        rows = [
            ["runs", f"{summary.runs:,}"],
            ["simulated", f"{summary.seconds / 3600:,.1f} h"],
            ["events", f"{summary.events:,}"],
            ["faults", f"{sum(summary.faults.values()):,}"],
            ["publications", f"{summary.publications:,}"],
            ["deliveries", f"{summary.deliveries:,}"],
            ["promised deliveries checked", f"{summary.promised:,}"],
            ["seeds with a violation", f"{len(summary.violations):,}"],
        ]
        print_campaign(rows, summary.faults, details, summary.violations)
    if broken:
        raise typer.Exit(1)


def _detail(found: Outcome) -> dict[str, object]:
    from tocsin.simulation.content.campaign import command, last_lines, shrink

    only = shrink(found)
    return {
        "seed": found.seed,
        "invariant": found.violations[0].invariant,
        "what": found.violations[0].what,
        "faults": [found.script[place] for place in only] if found.script else [],
        "last": last_lines(found.seed, only),
        "replay": command(found.seed, only),
    }


def workload(
    file: Annotated[Path, typer.Argument(help="The workload, in PADRES' form.", metavar="FILE")],
    seconds: Annotated[
        float, typer.Option(min=0.0, max=86_400.0, help="How long it goes on after the last line.")
    ] = 60.0,
    seed: Seed = 1,
    json: Json = False,
) -> None:
    """Run a PADRES workload file on simulated heads and edges.

    Its lines add brokers with a CPU (MHz), memory (MB) and bandwidth (Mbit/s), publishers of stock quotes with a rate
    (messages a minute), and subscribers; clients go where PEER's roles send them. Prints where they are, rates,
    deliveries, hops and delays.

    \b
    Example:
      tocsin simulate workload examples/stock.workload
    """
    from tocsin.simulation.content.workload.commands import read
    from tocsin.simulation.content.workload.run import run

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"{file} is not a text in UTF-8", hint="write the workload as plain text") from error
    except OSError as error:
        raise SystemFailure(f"{file} cannot be read: {error.strerror}", hint="name a workload file") from None
    result = run(read(text), seconds=seconds, seed=seed)
    if json:
        print_json(msgspec.to_builtins(result))
    else:
        show(result)


def show(result: Result) -> None:
    print_table(
        ["broker", "role", "publishers", "subscribers", "matched", "forwarded", "busy"],
        [
            [b.name, b.role, b.publishers, b.subscribers, f"{b.matched:,}", f"{b.forwarded:,}", f"{b.busy:.1%}"]
            for b in result.brokers
        ],
        [False, False, True, True, True, True, True],
    )
    print_table(
        ["publisher", "symbol", "a minute", "at", "published", "deliveries"],
        [
            [p.name, p.symbol, f"{p.rate:g}", p.broker or "–", f"{p.published:,}", f"{p.deliveries:,}"]
            for p in result.publishers
        ],
        [False, False, True, False, True, True],
    )
    print_table(
        ["subscriber", "at", "deliveries", "hops", "delay", "condition"],
        [
            [
                s.name,
                s.broker or "–",
                f"{s.deliveries:,}",
                f"{s.hops / s.deliveries:.1f}" if s.deliveries else "–",
                f"{1000 * s.delay / s.deliveries:,.1f} ms" if s.deliveries else "–",
                s.condition,
            ]
            for s in result.subscribers
        ],
        [False, False, True, True, True, False],
    )
    for line in result.refused[:DETAILED]:
        print_line(f"refused: {line}")
