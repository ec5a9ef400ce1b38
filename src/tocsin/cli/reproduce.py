"""``tocsin reproduce``: reproduces the papers' figures and compares them with the papers' claims."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tocsin.cli.output import Json, print_json, print_line
from tocsin.cli.progress import track
from tocsin.cli.up import terminable
from tocsin.errors import NotFound, SystemFailure, UserError

if TYPE_CHECKING:
    from tocsin.experiments.antoine2014.figure import Figure as KeySpaceFigure
    from tocsin.experiments.debs2019.figure import Figure
    from tocsin.experiments.debs2019.variants import Runs, Variant
    from tocsin.experiments.outcome import Outcome

AnyFigure = TypeVar("AnyFigure")


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="D-5 to D-14, D-10s, P-2, P-T1, P-T2, or all; D-proto with --live.", metavar="FIGURE..."),
    ],
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1_000, help="Runs of each, with different random numbers; 5, with --live 1."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for data, charts and pages.")] = Path("artifacts/reproduce"),
    charts: Annotated[bool, typer.Option("--charts/--no-charts", help="Draw charts; needs matplotlib.")] = True,
    jobs: Annotated[int, typer.Option(min=0, max=256, help="Processes; 0: one per core.")] = 1,
    small: Annotated[bool, typer.Option("--small", help="A smaller network, for a quick check.")] = False,
    live: Annotated[bool, typer.Option("--live", help="D-proto on real processes with Spark.")] = False,
    speed: Annotated[float, typer.Option(min=0.1, max=60, help="With --live: seconds of the city in a second.")] = 10.0,
    people: Annotated[int, typer.Option(min=1, max=200_000, help="With --live: how many subscribers.")] = 400,
    minutes: Annotated[float, typer.Option(min=1, max=1_440, help="With --live: minutes of the city.")] = 30.0,
    most: Annotated[
        int | None, typer.Option(min=0, help="With --live: make at most this many of the missing runs.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a paper's experiments and print each claim beside the result.

    For each figure it writes a Parquet file, charts (PNG) and a page; index.html has all figures, and tables.md has
    their numbers as Markdown. The same seeds give the same figures. D-5 to D-14 are of Nguyen et al. 2019 and take some
    minutes; P-2, P-T1 and P-T2 are of Antoine et al. 2014 and take a few minutes for each seed.
    Live runs are stored one by one in the folder's runs/: the same command goes on where it was interrupted.

    \b
    Example:
      tocsin reproduce D-8 D-10 --seeds 3
      tocsin reproduce all
      tocsin reproduce P-2 P-T1 P-T2
      tocsin reproduce D-proto --live --speed 20
    """
    from tocsin.experiments.antoine2014 import figures as antoine2014
    from tocsin.experiments.debs2019.figure import Figure
    from tocsin.experiments.debs2019.figures import FIGURES
    from tocsin.experiments.debs2019.variants import Runs
    from tocsin.experiments.markdown import plain
    from tocsin.experiments.png import pyplot
    from tocsin.experiments.report import write

    alone = [name.upper() for name in names] == [LIVE.upper()]
    if live != alone:
        raise UserError(f"--live and {LIVE} go together", hint=f"tocsin reproduce {LIVE} --live")
    known: dict[str, Figure | KeySpaceFigure] = {**FIGURES, **antoine2014.FIGURES}
    jobs = jobs or os.cpu_count() or 1
    every = [] if live else chosen(names, known)
    wanted = [figure for figure in every if isinstance(figure, Figure)]
    others = [figure for figure in every if not isinstance(figure, Figure)]
    # Report a missing package before the work, not after it.
    if charts:
        pyplot()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        trouble = f"{out} cannot be written: {error.strerror}"
        raise SystemFailure(trouble, hint="choose another folder: --out") from error
    if live:
        outcomes = [alive(out / "runs", people, speed, minutes, seeds or 1, most)]
    else:
        runs = Runs(tuple(range(1, (seeds or SEEDS) + 1)), small)
        with tracked(runs, wanted):
            if jobs != 1:
                runs.make(compared(wanted), jobs)
            outcomes = [figure.outcome(runs) for figure in wanted]
        outcomes += on_key_spaces(others, runs.seeds, small, jobs)
    title, intro = words(live)
    if others and not wanted:
        title, intro = antoine2014.TITLE, antoine2014.INTRO
    files = write(outcomes, out, charts=charts, title=title, intro=intro)
    if json:
        print_json({"figures": [plain(each) for each in outcomes], "page": str(files[-1])})
        return
    for outcome in outcomes:
        show(outcome)
    print_line(f"{len(files)} files in {out}; open {files[-1]}")


def on_key_spaces(
    wanted: Sequence[KeySpaceFigure], seeds: tuple[int, ...], small: bool, processes: int
) -> list[Outcome]:
    from tocsin.experiments.antoine2014.figures import jobs
    from tocsin.experiments.antoine2014.runs import FEW_PEERS, PEERS, Runs

    if not wanted:
        return []
    done, every = 0.0, jobs(wanted)
    with track(len(every) * len(seeds)) as update:

        def report(name: str, seed: int, ended: bool) -> None:
            nonlocal done
            done += ended
            update(done, f"{name}, seed {seed}")

        runs = Runs(seeds, small, report, FEW_PEERS if small else PEERS)
        if processes != 1:
            runs.make(every, processes)
        return [figure.outcome(runs) for figure in wanted]


def words(live: bool) -> tuple[str, str]:
    """The title and the introduction of the page."""
    from tocsin.experiments import report
    from tocsin.experiments.debs2019 import live as living

    return (living.TITLE, living.INTRO) if live else (report.TITLE, report.INTRO)


def chosen(names: Sequence[str], known: Mapping[str, AnyFigure]) -> list[AnyFigure]:
    """The figures of these names in the order of the papers, each once; ``all`` means all of them."""
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


#: What can be run live; seeds of what is simulated.
LIVE, SEEDS = "D-proto", 5


def alive(folder: Path, people: int, speed: float, minutes: float, seeds: int, most: int | None) -> Outcome:
    from tocsin.experiments.debs2019 import live

    count = len(live.VARIANTS)
    with terminable(), track(count * seeds) as update:  # the processes that it has started end with it

        def report(variant: Variant, seed: int, share: float) -> None:
            done = (seed - 1) * count + live.VARIANTS.index(variant)
            update(done + share, f"{LIVE}, {variant.name}, seed {seed}")

        try:
            return live.live(
                folder, people=people, speed=speed, minutes=minutes, seeds=seeds, most=most, progress=report
            )
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
        mark = "set-up" if check.setup else "yes " if check.mostly else "half" if check.half else "no  "
        print_line(f"  {mark} {check.says}: {check.found} ({check.often})")
    print_line(f"  verdict: {outcome.verdict.value}{f'; {outcome.depends}' if outcome.depends else ''}")
    print_line("")
