"""``tocsin demo``: a city with people in it, on a local deployment."""

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
from tocsin.cli.screen import channels_table, overview, sentence, summary_lines
from tocsin.cli.up import PORT, Progress, terminable
from tocsin.config import CoordinatorConfig
from tocsin.errors import UserError

if TYPE_CHECKING:
    from tocsin.demo import CityOptions, Demo
    from tocsin.local import Options

#: Seconds of the papers' experiment.
HALF_HOUR = 1_800.0
#: Seconds of the city after which it ends without a terminal: by then all people have subscribed.
WITHOUT_TERMINAL = 900.0
#: Seconds of the city in a second, for this many people and fewer. With more it pays that the JVM compiles well.
DEFAULT_SPEED, FEW = 5.0, 1_000
#: Seconds between two lines without a terminal, and between two screens on one.
LINE, SCREEN = 5.0, 0.5


def demo(
    subscribers: Annotated[
        int, typer.Option(min=1, max=200_000, help="People who walk through the city and subscribe.")
    ] = 400,
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
            help="End after this many seconds. Default: Ctrl-C on a terminal, else a quarter of an hour of the city.",
        ),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Run until Ctrl-C.")] = False,
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
        typer.Option(
            min=0, max=65000, help="First port, as for `tocsin up`; without it, free ones if the usual ones are in use."
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: Json = False,
) -> None:
    """Run a generated city on a whole network, and show the notifications of its people.

    It starts a data cluster with Spark, a coordinator, brokers, and a client for each of the people who move through
    the city: all real processes. Emergencies break out, eight publishers report them, and the people who subscribed
    are notified. By default it is the papers' experiment, half an hour in six minutes. With --json the last line is
    the statistics as JSON: notifications, people reached, latency, migrations, cov, channels.

    \b
    Example:
      tocsin demo --subscribers 1000 --placement nearest --strategy multistage --seconds 120 --json
    """
    if stay and seconds is not None:
        raise UserError("--stay and --seconds contradict each other", hint="give one of them")
    from tocsin.demo import CityOptions, Demo
    from tocsin.local import Options

    pace = default_speed(subscribers) if speed is None else speed
    console = Console(highlight=False)
    terminal = console.is_terminal and not json
    console.soft_wrap = not terminal  # lines in a file are not folded
    city = CityOptions(seed=seed, subscribers=subscribers, speed=pace, clients=clients, least_move=least_move)
    options = Options(
        home=home,
        brokers=brokers,
        port=default_or_free_port(brokers) if port is None else port,
        placement=placement,
        strategy=strategy,
        settings=CoordinatorConfig(balance_every=max(2.0, 10.0 / pace), interval=1.0),
        brief=not stay and subscribers <= FEW,
    )
    last = seconds if seconds is not None else None if stay or terminal else WITHOUT_TERMINAL / pace
    facts: dict[str, Any] | None = None
    if not json and (remark := speed_remark(subscribers, speed)):
        console.print(remark)
    with terminable(), Progress(console, json) as progress:
        try:
            with Demo(options, city, progress.show) as running:
                progress.pause()
                if not json:
                    console.print(f"\nThe page: [bold]{running.deployment.page}[/]\n{ending(last, pace)}\n")
                if open_page:
                    webbrowser.open(running.deployment.page)
                with contextlib.suppress(KeyboardInterrupt):
                    watch(console, running, last, plain=not terminal, silent=json)
                facts = running.summary() | {"options": as_json(options, city)}
                progress.wait("stopping; the first time, Spark saves what makes later starts quick")
        except KeyboardInterrupt:
            console.print("stopped before everything had started")
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


def default_or_free_port(brokers: int) -> int:
    """The default ports, so that other commands need no addresses, unless one of them is in use."""
    from tocsin.local.deployment import ports
    from tocsin.local.preflight import check_ports

    try:
        check_ports("127.0.0.1", ports(PORT, brokers))
    except UserError:
        return 0
    return PORT


def default_speed(subscribers: int) -> float:
    """Ten times as many people get ten times as many notifications; a slower city leaves the time for them."""
    return max(1.0, min(DEFAULT_SPEED, round(DEFAULT_SPEED * FEW / subscribers, 1)))


def speed_remark(subscribers: int, speed: float | None) -> str:
    """'' if there is nothing to remark."""
    usual = default_speed(subscribers)
    if speed is None and usual < DEFAULT_SPEED:
        return f"{subscribers:,} people: the city is slower, --speed {usual:g}, so that the machine keeps up."
    if speed is not None and speed > 2 * usual:
        return (
            f"{subscribers:,} people at --speed {speed:g} may be more than this machine can do: then logins and "
            f"notifications are late. The default for them is --speed {usual:g}."
        )
    return ""


def ending(last: float | None, speed: float) -> str:
    if last is None:
        return f"Half an hour of the city passes in {HALF_HOUR / speed:.0f} s; it goes on until Ctrl-C."
    return f"It ends after {last:.0f} s; Ctrl-C ends it before."


def as_json(options: Options, city: CityOptions) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in ("brokers", "placement", "strategy")}
    return given | {name: getattr(city, name) for name in ("seed", "subscribers", "speed")}


def watch(console: Console, running: Demo, seconds: float | None, *, plain: bool, silent: bool) -> None:
    began = time.monotonic()
    end = float("inf") if seconds is None else began + seconds
    if silent or plain:
        watch_lines(console, running, end, silent=silent)
        return
    with Live(console=console, refresh_per_second=1 / SCREEN, transient=True) as live:
        while (left := end - time.monotonic()) > 0:
            live.update(overview(running.loop, running.deployment.page, console.width))
            time.sleep(min(left, SCREEN))


def watch_lines(console: Console, running: Demo, end: float, *, silent: bool) -> None:
    shown: dict[str, Any] | None = None
    first, due = True, time.monotonic() + LINE
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
        loop = running.loop
        if silent:
            continue
        if first and loop.newest:
            first = False
            console.print(f"First notification after {loop.statistics.first or 0:.1f} s:")
            shown = next(iter(loop.newest.values()))
            console.print(sentence(loop, shown))
        if time.monotonic() >= due:
            due += LINE
            console.print(
                f"{time.monotonic() - loop.statistics.began:6.0f} s  city {loop.now / 60:4.1f} min  "
                f"{loop.connected:5,} people  {loop.statistics.sums['notifications']:7,} notifications  "
                f"cov {loop.topology.get('cov', 0.0):.2f}"
            )
            newest = max(loop.newest.values(), key=lambda each: each["at"], default=None)
            if newest is not None and newest is not shown:
                console.print(sentence(loop, newest))
                shown = newest
