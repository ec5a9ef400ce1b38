"""``tocsin reproduce``: reproduces the papers' figures and compares them with the papers' claims."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.output import Json, print_json, print_line
from tocsin.cli.progress import track
from tocsin.cli.up import terminable
from tocsin.errors import NotFound, SystemFailure, UserError

if TYPE_CHECKING:
    from tocsin.experiments.debs2019.figure import Figure
    from tocsin.experiments.debs2019.variants import Runs, Variant
    from tocsin.experiments.outcome import Outcome


def reproduce(
    names: Annotated[
        list[str], typer.Argument(help="D-5 to D-14, D-10s, or all; D-proto with --live.", metavar="FIGURE...")
    ],
    seeds: Annotated[int, typer.Option(min=1, max=1_000, help="Runs of each, with different random numbers.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for data, charts and pages.")] = Path("artifacts/reproduce"),
    charts: Annotated[bool, typer.Option("--charts/--no-charts", help="Draw charts; needs matplotlib.")] = True,
    jobs: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0: one per core.")] = 1,
    small: Annotated[bool, typer.Option("--small", help="A smaller network, for a quick check.")] = False,
    live: Annotated[bool, typer.Option("--live", help="D-proto on real processes with Spark, one run each.")] = False,
    speed: Annotated[float, typer.Option(min=0.1, max=60, help="With --live: seconds of the city in a second.")] = 10.0,
    people: Annotated[int, typer.Option(min=1, max=200_000, help="With --live: how many subscribers.")] = 400,
    minutes: Annotated[float, typer.Option(min=1, max=1_440, help="With --live: minutes of the city.")] = 30.0,
    json: Json = False,
) -> None:
    """Run a paper's experiments and print each claim beside the result.

    For each figure it writes a Parquet file, charts (PNG) and a page; index.html has all figures, and tables.md has
    their numbers as Markdown. The same seeds give the same figures. All of them take some minutes.

    \b
    Example:
      tocsin reproduce D-8 D-10 --seeds 3
      tocsin reproduce all
      tocsin reproduce D-proto --live --speed 20
    """
    from tocsin.experiments.debs2019.figures import FIGURES
    from tocsin.experiments.debs2019.variants import Runs
    from tocsin.experiments.markdown import plain
    from tocsin.experiments.png import pyplot
    from tocsin.experiments.report import write

    alone = [name.upper() for name in names] == [LIVE.upper()]
    if live != alone:
        raise UserError(f"--live and {LIVE} go together", hint=f"tocsin reproduce {LIVE} --live")
    wanted = [] if live else chosen(names, FIGURES)
    # Report a missing package before the work, not after it.
    if charts:
        pyplot()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        trouble = f"{out} cannot be written: {error.strerror}"
        raise SystemFailure(trouble, hint="choose another folder: --out") from error
    if live:
        outcomes = [alive(people, speed, minutes)]
    else:
        runs = Runs(tuple(range(1, seeds + 1)), small)
        with tracked(runs, wanted):
            if jobs != 1:
                runs.make(compared(wanted), jobs or os.cpu_count() or 1)
            outcomes = [figure.outcome(runs) for figure in wanted]
    title, intro = words(live)
    files = write(outcomes, out, charts=charts, title=title, intro=intro)
    if json:
        print_json({"figures": [plain(each) for each in outcomes], "page": str(files[-1])})
        return
    for outcome in outcomes:
        show(outcome)
    print_line(f"{len(files)} files in {out}; open {files[-1]}")


def words(live: bool) -> tuple[str, str]:
    """The title and the introduction of the page."""
    from tocsin.experiments import report
    from tocsin.experiments.debs2019 import live as living

    return (living.TITLE, living.INTRO) if live else (report.TITLE, report.INTRO)


def chosen(names: Sequence[str], known: dict[str, Figure]) -> list[Figure]:
    """The figures of these names in the order of the paper, each once; ``all`` means all of them."""
    upper = {name.upper(): name for name in known}
    wanted = set()
    for name in names:
        if name.lower() == "all":
            wanted |= set(known)
        elif name.upper() in upper:
            wanted.add(upper[name.upper()])
        else:
            raise NotFound("figure", name, hint=f"there are: {', '.join(known)}, all")
    return [figure for name, figure in known.items() if name in wanted]


#: What can be run live.
LIVE = "D-proto"


def alive(people: int, speed: float, minutes: float) -> Outcome:
    from tocsin.experiments.debs2019 import live

    with terminable(), track(len(live.VARIANTS)) as update:  # the processes that it has started end with it

        def report(variant: Variant, share: float) -> None:
            update(live.VARIANTS.index(variant) + share, f"{LIVE}, {variant.name}")

        try:
            return live.live(people=people, speed=speed, minutes=minutes, progress=report)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


#: The time of a run, relative to one of the prototype.
WEIGHTS = {"proto": 1.0, "sim": 4.5}


def compared(wanted: Sequence[Figure]) -> list[Variant]:
    """The variants of these figures, each once."""
    return list(dict.fromkeys(variant for figure in wanted for variant in figure.variants))


@contextlib.contextmanager
def tracked(runs: Runs, wanted: Sequence[Figure]) -> Iterator[None]:
    total = sum(WEIGHTS[variant.setup] for variant in compared(wanted)) * len(runs.seeds)
    shares: dict[tuple[Variant, int], float] = {}
    with track(total) as update:

        def report(variant: Variant, seed: int, share: float) -> None:
            shares[variant, seed] = share
            done = sum(WEIGHTS[each.setup] * part for (each, _), part in shares.items())
            update(done, f"{variant.name}, seed {seed}")

        runs.progress = report
        yield


def show(outcome: Outcome) -> None:
    print_line(f"{outcome.id}: {outcome.title}")
    print_line(f"  the paper: {outcome.claim}")
    for check in outcome.checks:
        mark = "yes " if check.mostly else "half" if check.half else "no  "
        print_line(f"  {mark} {check.says}: {check.found} ({check.often})")
    print_line(f"  verdict: {outcome.verdict.value}")
    print_line("")
