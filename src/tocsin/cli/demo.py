"""``tocsin demo``: a city with people in it on a whole network of its own, and what they are told as it happens."""

from __future__ import annotations

import contextlib
import time
import webbrowser
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from tocsin.cli.output import Json, print_json
from tocsin.cli.screen import channels_table, picture, sentence, summary_lines
from tocsin.cli.up import PORT, Progress, terminable
from tocsin.config import CoordinatorConfig
from tocsin.errors import UserError

if TYPE_CHECKING:
    from tocsin.local import LocalDeployment

#: Seconds of the papers' experiment.
HALF_HOUR = 1_800.0
#: Seconds of the city after which it ends where nobody watches: everybody has subscribed, and was told of something.
UNWATCHED = 900.0
#: Seconds of the city in a second, for so many people and fewer. For more of them it pays that the JVM compiles well.
USUAL, FEW = 5.0, 1_000
#: Seconds between two lines where nobody watches a terminal, and between two pictures where somebody does.
LINE, PICTURE = 5.0, 0.5


def demo(
    subscribers: Annotated[int, typer.Option(min=1, max=200_000, help="People who move and subscribe.")] = 400,
    brokers: Annotated[int, typer.Option(min=1, max=64, help="How many brokers.")] = 5,
    speed: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=60,
            help="Seconds of the city in a second; also divides the channels' periods. 5 for up to 1,000 people, "
            "less for more.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same city, people and emergencies.")] = 1,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="End after so long; without it, after a quarter of an hour of the city, or Ctrl-C on a terminal.",
        ),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Go on until Ctrl-C.")] = False,
    placement: Annotated[str, typer.Option(help="How the coordinator places people.")] = "nearest",
    strategy: Annotated[str | None, typer.Option(help="How load is balanced; '' for not at all.")] = None,
    clients: Annotated[int, typer.Option(min=0, max=64, help="Processes for the people's clients; 0: as needed.")] = 0,
    least_move: Annotated[
        float,
        typer.Option(
            min=-1, help="Metres to move before a location is published again; -1: 0, or more with many people."
        ),
    ] = -1,
    home: Annotated[str, typer.Option(help="Keep the data in this folder; without it nothing is kept.")] = "",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65000, help="First port, as for `tocsin up`; without it, free ones if need be."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: Json = False,
) -> None:
    """Run a city on a network of its own and see what its people are told.

    A data cluster with Spark, a coordinator, brokers, and a client for each of the people who walk and ride through
    the city: all real processes. Emergencies break out, are reported by eight publishers, and reach those who
    subscribed. By default it is the papers' experiment, half an hour in six minutes. With --json the facts at the
    end are printed as JSON: notifications, people reached, latency, migrations, cov, channels.

    \b
    Example:
      tocsin demo --subscribers 1000 --placement nearest --strategy multistage --seconds 120 --json
    """
    if stay and seconds is not None:
        raise UserError("--stay and --seconds contradict each other", hint="give one of them")
    from tocsin.local import CityOptions, LocalDeployment, Options

    pace = usual_speed(subscribers) if speed is None else speed
    console = Console(highlight=False)
    watched = console.is_terminal and not json
    console.soft_wrap = not watched  # a window folds what is too long; a file need not
    city = CityOptions(seed=seed, subscribers=subscribers, speed=pace, clients=clients, least_move=least_move)
    options = Options(
        home=home,
        brokers=brokers,
        port=usual_or_free(brokers) if port is None else port,
        placement=placement,
        strategy=strategy,
        settings=CoordinatorConfig(balance_every=max(2.0, 10.0 / pace), interval=1.0),
        brief=not stay and subscribers <= FEW,
        city=city,
    )
    last = seconds if seconds is not None else None if stay or watched else UNWATCHED / pace
    facts: dict[str, Any] | None = None
    if not json and (said := about_pace(subscribers, speed)):
        console.print(said)
    with terminable(), Progress(console, json) as progress:
        try:
            with LocalDeployment(options, progress.tell) as town:
                progress.rest()
                if not json:
                    console.print(f"\nThe page: [bold]{town.addresses['page']}[/]\n{ending(last, pace)}\n")
                if open_page:
                    webbrowser.open(town.addresses["page"])
                with contextlib.suppress(KeyboardInterrupt):
                    watch(console, town, last, plain=not watched, silent=json)
                facts = town.summary() | {"options": as_json(options)}
                progress.wait("ending; the first time, Spark writes down what makes later starts quick")
        except KeyboardInterrupt:
            console.print("stopped before it began")
            raise typer.Exit(130) from None
    if json:
        print_json(facts)
    elif facts is not None:
        console.print()
        console.print(channels_table(facts))
        for line in summary_lines(facts):
            console.print(line)
        if home:
            console.print(f"The data is kept: tocsin up --home {escape(home)}")


def usual_or_free(brokers: int) -> int:
    """The usual ports, so that other commands need no addresses, unless somebody has one of them."""
    from tocsin.local.preflight import check_ports

    try:
        check_ports("127.0.0.1", range(PORT, PORT + brokers + 2))
    except UserError:
        return 0
    return PORT


def usual_speed(subscribers: int) -> float:
    """Ten times as many people have ten times as much to be told; they take their time for it."""
    return max(1.0, min(USUAL, round(USUAL * FEW / subscribers, 1)))


def about_pace(subscribers: int, speed: float | None) -> str:
    """What is to be said of it, if anything."""
    usual = usual_speed(subscribers)
    if speed is None and usual < USUAL:
        return f"{subscribers:,} people: the city takes its time, --speed {usual:g}, so that the machine keeps up."
    if speed is not None and speed > 2 * usual:
        return (
            f"{subscribers:,} people at --speed {speed:g} may be more than this machine can do: then they come later, "
            f"and are told later. --speed {usual:g} is what it takes by itself."
        )
    return ""


def ending(last: float | None, speed: float) -> str:
    if last is None:
        return f"Half an hour of the city passes in {HALF_HOUR / speed:.0f} s; it goes on until Ctrl-C."
    return f"It ends after {last:.0f} s; Ctrl-C ends it before."


def as_json(options: Any) -> dict[str, Any]:
    return {
        "brokers": options.brokers,
        "placement": options.placement,
        "strategy": options.strategy,
        "seed": options.city.seed,
        "subscribers": options.city.subscribers,
        "speed": options.city.speed,
    }


def watch(console: Console, town: LocalDeployment, seconds: float | None, *, plain: bool, silent: bool) -> None:
    began = time.monotonic()
    end = float("inf") if seconds is None else began + seconds
    if silent or plain:
        watch_lines(console, town, end, silent=silent)
        return
    with Live(console=console, refresh_per_second=1 / PICTURE, transient=True) as live:
        while (left := end - time.monotonic()) > 0:
            live.update(picture(town, console.width))
            time.sleep(min(left, PICTURE))


def watch_lines(console: Console, town: LocalDeployment, end: float, *, silent: bool) -> None:
    shown: dict[str, Any] | None = None
    first, due = True, time.monotonic() + LINE
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
        life = town.life
        if silent:
            continue
        if first and life.newest:
            first = False
            console.print(f"First notification after {life.tally.first or 0:.1f} s:")
            shown = next(iter(life.newest.values()))
            console.print(sentence(life, shown))
        if time.monotonic() >= due:
            due += LINE
            sums, now = life.tally.sums, life.now
            console.print(
                f"{time.monotonic() - life.tally.began:6.0f} s  city {now / 60:4.1f} min  "
                f"{int((life.broker != 255).sum()):5,} people  {sums['notifications']:7,} notifications  "
                f"cov {life.topology.get('cov', 0.0):.2f}"
            )
            newest = max(life.newest.values(), key=lambda each: each["at"], default=None)
            if newest is not None and newest is not shown:
                console.print(sentence(life, newest))
                shown = newest
