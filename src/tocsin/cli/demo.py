"""``tocsin demo``: the emergency application on a data cluster of its own, for a minute, with results as they come."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import httpx
import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.city.audience import Audience, Delivery, Line, wishes
from tocsin.city.reports import City, ndjson
from tocsin.cli.http import Client, Remote, path
from tocsin.errors import SystemTrouble, UserError

START_SECONDS = 120.0
PATIENCE = 30.0
SHOWN = 3


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to feed the cluster.")] = 60,
    seed: Annotated[int, typer.Option(help="The same seed makes the same city.")] = 1,
    people: Annotated[int, typer.Option(min=1, max=100_000, help="People who move and subscribe.")] = 400,
    rate: Annotated[float, typer.Option(min=0.1, max=10_000, help="Emergency reports a second.")] = 6,
    speed: Annotated[float, typer.Option(min=0.1, max=100, help="Divides the periods of the channels.")] = 1,
    keep_home: Annotated[bool, typer.Option("--keep-home", help="Keep the data for later queries.")] = False,
) -> None:
    """Run the emergency application on a data cluster of its own and print what people are told."""
    console = Console(highlight=False)
    home = Path(tempfile.mkdtemp(prefix="tocsin-demo-"))
    with _terminable():
        try:
            _run(console, home, City(seed, people), seconds=seconds, seed=seed, rate=rate, speed=speed)
        except KeyboardInterrupt:
            console.print("stopped before it began")
            raise typer.Exit(130) from None
        finally:
            if keep_home:
                console.print(f"The data is kept: tocsin cluster --home {home}")
            else:
                shutil.rmtree(home, ignore_errors=True)


def _run(console: Console, home: Path, city: City, *, seconds: float, seed: int, rate: float, speed: float) -> None:
    with ExitStack() as stack:
        with _step(console, "starting a data cluster with Spark") as note:
            address = stack.enter_context(running_cluster(home))
            note(address)
        client = stack.enter_context(Client(address))
        screen = Screen(console)
        # A client of its own, as it pulls in a thread of its own.
        pulling = stack.enter_context(httpx.Client(base_url=address, timeout=60, trust_env=False))
        audience = Audience(pulling, screen.show)
        _prepare(console, client, audience, city, home, seed=seed, speed=speed)
        console.print(f"\nFeeding for {seconds:g} s. Each channel runs in its own period; Ctrl-C stops.\n")
        screen.started = time.monotonic()
        fed = Counter[str]()
        try:
            _feed(client, audience, city, fed, until=time.monotonic() + seconds, rate=rate)
            _wait_for_all(console, client)
        except KeyboardInterrupt:
            console.print("\nstopping")
        finally:
            audience.stop()
        _summary(console, client, audience, fed)
        with console.status("ending the data cluster …"):
            stack.close()


def _prepare(
    console: Console, client: Client, audience: Audience, city: City, home: Path, *, seed: int, speed: float
) -> None:
    with _step(console, "running examples/emergency.sql") as note:
        note(f"{_sql(client, script(speed), note.more)} statements")
    with _step(console, "loading shelters") as note:
        shelters = home / "shelters.json"
        shelters.write_bytes(ndjson(city.shelters()))
        _sql(client, f"LOAD DATASET Shelters FROM '{shelters}' FORMAT json", note.more)
        note(str(len(city.shelters())))
    with _step(console, "subscribing") as note:
        audience.start()
        _publish(client, "UserLocationFeed", city.locations(time.time()))
        found = client.call("GET", "/channels")["channels"]
        channels = {channel["name"]: [each["name"] for each in channel["parameters"]] for channel in found}
        wanted = wishes(seed, city.users, channels)
        audience.subscribe(wanted)
        note(f"{len(city.users)} people with {len(wanted)} wishes: {audience.subscriptions} different subscriptions")


def script(speed: float = 1.0) -> str:
    """``examples/emergency.sql``, with its periods divided by ``speed``."""
    text = resources.files("tocsin.city").joinpath("emergency.sql").read_text(encoding="utf-8")
    return re.sub(r'duration\("PT(\d+)S"\)', lambda found: f'duration("PT{int(found[1]) / speed:g}S")', text)


def _feed(client: Client, audience: Audience, city: City, fed: Counter[str], *, until: float, rate: float) -> None:
    """Every second everybody's location, and the reports that are due."""
    due, before = 0.0, time.monotonic() - 1.0
    while (now := time.monotonic()) < until:
        if audience.error is not None:
            raise SystemTrouble(f"the demo's broker cannot pull: {audience.error}")
        city.move(now - before)
        due += (now - before) * rate
        before = now
        reports = [city.report(time.time()) for _ in range(int(due))]
        due -= len(reports)
        fed["locations"] += _publish(client, "UserLocationFeed", city.locations(time.time()))
        if reports:
            fed["reports"] += _publish(client, "EmergencyReportFeed", reports)
        time.sleep(max(0.0, min(until, now + 1.0) - time.monotonic()))


def _wait_for_all(console: Console, client: Client) -> None:
    """On a slow machine a channel may not have finished a run yet."""
    end = time.monotonic() + PATIENCE
    with console.status("waiting for the channels that still run …"):
        while time.monotonic() < end:
            if all(channel["last_execution"] for channel in client.call("GET", "/channels")["channels"]):
                return
            time.sleep(0.2)


class Screen:
    """Prints a few lines of each delivery."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.started = time.monotonic()

    def show(self, delivery: Delivery) -> None:
        if not delivery.lines:
            return
        at = time.monotonic() - self.started
        told = len({person for line in delivery.lines for person in line.people})
        head = f"{at:5.1f} s  [bold]{delivery.channel}[/] [dim]run {delivery.execution}:[/] "
        counted = f"{delivery.results} results in {len(delivery.lines)} subscriptions, for {told} people"
        self._console.print(head + counted)
        for line in delivery.lines[:: math.ceil(len(delivery.lines) / SHOWN)]:
            self._console.print(_sentence(line), overflow="ellipsis", no_wrap=True)


def _sentence(line: Line) -> str:
    first = line.results[0]
    who = line.people[0] if len(line.people) == 1 else f"{line.people[0]} and {len(line.people) - 1} more"
    text = first["message"].split(". ")[0]
    if "metres" in first:
        text += f", {first['metres']:.0f} m away"
    if len(line.results) > 1:
        text += f" [dim](and {len(line.results) - 1} more)[/]"
    if first.get("shelters"):
        named = ", ".join(f"{each['name']} {each['metres']:.0f} m" for each in first["shelters"])
        text += f" [green]→ {named}[/]"
    return f"         [cyan]{who:24}[/] {text}"


def _summary(console: Console, client: Client, audience: Audience, fed: Counter[str]) -> None:
    table = Table(title="What the channels did", title_justify="left", title_style="bold")
    table.add_column("channel")
    for title in ("period s", "subscriptions", "executions", "results", "mean ms"):
        table.add_column(title, justify="right")
    for channel in client.call("GET", "/channels")["channels"]:
        name = channel["name"]
        runs = client.call("GET", path("channels", name, "executions"), params={"limit": 10_000})["executions"]
        mean = f"{sum(run['finished'] - run['time'] for run in runs) / len(runs) * 1000:.0f}" if runs else "–"
        cells = (f"{channel['period']:.3g}", channel["subscriptions"], len(runs), audience.pulled[name], mean)
        table.add_row(name, *map(str, cells))
        if channel["state"] == "failing":
            table.add_row(f"[red]  failing: {escape(str(channel['error']))}[/]")
    console.print()
    console.print(table)
    console.print(f"Fed {fed['reports']:,} emergency reports and {fed['locations']:,} locations.")


# --- the cluster, as a process of its own


@contextmanager
def running_cluster(home: Path) -> Iterator[str]:
    """Its address, once queries can run."""
    ready, log = home / "ready.json", home / "cluster.log"
    command = [sys.executable, "-m", "tocsin.cli", "cluster", "--home", str(home), "--host", "127.0.0.1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", "0", "--ready-file", str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C is for the demo, which then ends the cluster.
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > end:
                tail = log.read_text(errors="replace").splitlines()[-15:]
                raise SystemTrouble("the data cluster did not start", hint="\n".join(tail))
            time.sleep(0.05)
        yield msgspec.json.decode(ready.read_bytes())["url"]
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asks, and if that does not help within a while, ends it with all it has started."""
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
    finally:  # also after a second, impatient Ctrl-C
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Note:
    """Says what is going on (``more`` adds to it), and when called that it is done."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what
        self._started = time.monotonic()
        self.status = console.status(f"{what} …")

    def more(self, text: str) -> None:
        self.status.update(f"{self._what}: {escape(text)} …")

    def __call__(self, text: str) -> None:
        self.status.stop()
        passed = time.monotonic() - self._started
        self._console.print(f"[green]✓[/] {self._what}: {escape(text)} [dim]({passed:.1f} s)[/]")


@contextmanager
def _step(console: Console, what: str) -> Iterator[_Note]:
    note = _Note(console, what)
    with note.status:
        yield note


@contextmanager
def _terminable() -> Iterator[None]:
    """A request to end is like Ctrl-C, so that the cluster is ended too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- requests


def _sql(client: Client, text: str, more: Callable[[str], None]) -> int:
    """Runs a script, says what each statement did, and returns how many there were."""
    headers = {"content-type": "text/plain", "accept": "application/x-ndjson"}
    done = 0
    with client.stream("POST", "/sql", content=text.encode(), headers=headers) as answer:
        for line in answer.iter_lines():
            event = msgspec.json.decode(line)
            if "error" in event:
                raise Remote(400, event["error"])
            if "outcome" in event:
                done += 1
                more(event["outcome"]["message"])
    return done


def _publish(client: Client, feed: str, records: list[dict[str, Any]]) -> int:
    headers = {"content-type": "application/x-ndjson"}
    receipt = client.call("POST", path("feeds", feed), content=ndjson(records), headers=headers)
    if receipt["refused"]:
        raise UserError(f"{feed} refused a record: {receipt['refused'][0]['reason']}")
    return int(receipt["taken"])
