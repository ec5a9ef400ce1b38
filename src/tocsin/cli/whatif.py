"""``tocsin simulate run``: answers an operator's question by simulation."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tocsin.cli.output import Json, print_json, print_line, print_table
from tocsin.cli.progress import track
from tocsin.errors import SystemFailure

if TYPE_CHECKING:
    from tocsin.experiments.whatif.answer import Candidate, Found
    from tocsin.experiments.whatif.scenario import Scenario


def what_if(
    file: Annotated[Path, typer.Argument(help="The scenario, as TOML.", metavar="SCENARIO.TOML")],
    out: Annotated[Path | None, typer.Option(help="Write the chart here, .html or .png; needs matplotlib.")] = None,
    json: Json = False,
) -> None:
    """Find out how many brokers a population needs, and which placement and strategy.

    Every candidate of the file is simulated with the same people and the coordinator's own decisions and limits. The
    load of a broker is what it fetches and delivers. The exit code is 1 if no candidate suffices. `run` may be left
    out.

    \b
    Example:
      tocsin simulate run examples/scenario.toml --out answer.html
    """
    from tocsin.experiments.whatif.answer import attempt, candidates, chart, enough, workload
    from tocsin.experiments.whatif.scenario import load

    scenario = load(file)
    if out is not None:
        _check(out)
    tried = candidates(scenario)
    found: list[Found] = []
    with track(len(tried)) as update:
        works = {brokers: workload(scenario, brokers) for brokers in {each.brokers for each in tried}}
        for number, candidate in enumerate(tried):

            def report(share: float, number: int = number, what: Candidate = candidate) -> None:
                update(number + share, f"{what.brokers} brokers, {what.placement}, {what.balancing}")

            found.append(attempt(scenario, candidate, works[candidate.brokers], report))
    best = enough(scenario, found)
    if out is not None:
        _draw(out, scenario, found, chart(scenario, found))
    if json:
        print_json(
            {"name": scenario.name, "candidates": [plain(each) for each in found], "answer": best and plain(best)}
        )
    else:
        show(scenario, found, best)
    if best is None:
        raise typer.Exit(1)


def _check(out: Path) -> None:
    if out.suffix not in (".html", ".png"):
        raise typer.BadParameter("the chart is .html or .png", param_hint="--out")
    if not out.parent.is_dir():
        raise SystemFailure(f"the folder {out.parent} does not exist", hint="choose another folder: --out")
    from tocsin.experiments.png import pyplot

    pyplot()  # report a missing package before the work, not after it


def _draw(out: Path, scenario: Scenario, found: list[Found], drawing: Any) -> None:
    from tocsin.experiments import page
    from tocsin.experiments.png import render

    image = render(drawing)
    if out.suffix == ".png":
        out.write_bytes(image)
        return
    table = page.table(COLUMNS, [row(each) for each in found])
    intro = "The result of each candidate. The busiest broker is the highest load of any broker in the second half."
    body = f"<section>{page.embedded(drawing, image)}{table}</section>"
    out.write_text(page.page(scenario.name, intro, body), encoding="utf-8")


#: The growth of the load in the last quarter of the time above which the simulation was too short.
GROWING = 0.05
COLUMNS = ["brokers", "placement", "balancing", "busiest broker", "cov", "migrations"]


def row(found: Found) -> list[str]:
    candidate = found.candidate
    figures = [f"{found.busiest:.0%}", f"{found.cov:.3f}", f"{found.migrations:,}"]
    return [str(candidate.brokers), candidate.placement, candidate.balancing, *figures]


def plain(found: Found) -> dict[str, Any]:
    figures = {"busiest": found.busiest, "cov": found.cov, "migrations": found.migrations}
    return asdict(found.candidate) | figures | {"deliveries": int(found.run.deliveries.sum())}


def show(scenario: Scenario, found: list[Found], best: Found | None) -> None:
    from tocsin.experiments.whatif.answer import calmer, growth

    people = scenario.population.subscribers
    print_line(f"{scenario.name}: {people:,} subscribers, {scenario.minutes:g} minutes")
    print_table(COLUMNS, [row(each) for each in found], [True, False, False, True, True, True])
    limit = f"{scenario.brokers.at_most:.0%}"
    if best is None:
        lowest = min(found, key=lambda each: each.busiest)
        lightest = f"of {lowest.candidate.brokers} brokers with {way(lowest)} the busiest is at {lowest.busiest:.0%}"
        need = math.ceil(lowest.candidate.brokers * lowest.busiest / scenario.brokers.at_most)
        print_line(f"None is enough: even {lightest}, above {limit}. Try {need:,} and more.")
        return
    print_line(f"{enough_with(best)}: the busiest reaches {best.busiest:.0%} of at most {limit}, {cost(best)}.")
    other = calmer(scenario, found, best)
    if other is not None:
        print_line(f"With fewer migrations {enough_with(other)}: {other.busiest:.0%}, {cost(other)}.")
    grown = growth(best)
    if grown > GROWING:
        print_line(f"The load still grew at the end, by {grown:.0%} in the last quarter: simulate more minutes.")


def enough_with(found: Found) -> str:
    brokers = "1 broker is" if found.candidate.brokers == 1 else f"{found.candidate.brokers} brokers are"
    return f"{brokers} enough with {way(found)}"


def way(found: Found) -> str:
    return f"{found.candidate.placement} placement and {found.candidate.balancing}"


def cost(found: Found) -> str:
    return "with 1 migration" if found.migrations == 1 else f"with {found.migrations:,} migrations"
