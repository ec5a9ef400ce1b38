"""``tocsin up``: all parts on one machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from tocsin.cli.cluster import Anonymous
from tocsin.cli.http import Client
from tocsin.cli.output import Json, print_json, print_line, report, write_json
from tocsin.cli.sql import events, read
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.local import LocalDeployment
    from tocsin.local.supervisor import Status

PORT = 8480
URL, BROKER, COORDINATOR = (f"http://127.0.0.1:{PORT + place}" for place in (0, 1, 2))


def up(
    home: Annotated[str, typer.Option(help="Folder of all data and logs.")] = "tocsin-home",
    brokers: Annotated[int, typer.Option(min=1, max=64, help="How many brokers.")] = 2,
    sql: Annotated[
        list[str] | None,
        typer.Option(help="A file of statements to run; those that this home has run already are skipped."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65000,
            help="Port of the data cluster; the next ones are those of broker-1, the coordinator, the page and further "
            "brokers. 0 takes free ones.",
        ),
    ] = PORT,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="Connect all brokers to the first one, for live feeds.")
    ] = False,
    anonymous: Anonymous = None,
    config: Annotated[str | None, typer.Option(help="A TOML file for the data cluster; see `tocsin config`.")] = None,
    ready_file: Annotated[Path | None, typer.Option(help="Write the addresses here, as JSON, once all is up.")] = None,
    json: Json = False,
) -> None:
    """Run everything on this machine: data cluster with Spark, coordinator, brokers.

    Each part is a separate process with a log in HOME/logs; a process that ends by itself is started again. Ctrl-C and
    SIGTERM stop all. The same command continues with the same data.

    \b
    Example:
      tocsin up --sql examples/emergency.sql
    """
    scripts = [(name, read(name)) for name in sql or []]
    for name, text in scripts:
        check(name, text, json)
    from tocsin.local import LocalDeployment, Options

    console = Console(highlight=False, soft_wrap=True)
    with terminable(), Progress(console, json) as progress:
        try:
            options = Options(
                home=home, brokers=brokers, port=port, config=config, anonymous=anonymous or "", overlay=overlay
            )
            with LocalDeployment(options, progress.show) as deployment:
                for name, text in scripts:
                    run_script(deployment, name, text, progress, json)
                if ready_file is not None:
                    write_json(ready_file, deployment.addresses)
                progress.pause()
                print_addresses(deployment, json)
                with contextlib.suppress(KeyboardInterrupt):
                    threading.Event().wait()
                progress.wait("stopping")
        except KeyboardInterrupt:
            pass
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
    if json:
        print_json({"event": "stopped"})
    else:
        console.print(f"Stopped. To continue with the same data: tocsin up --home {escape(home)}")


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM is handled like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Progress:
    """A line for each step that is done, with its seconds; on a terminal, also the step that is under way."""

    def __init__(self, console: Console, json: bool) -> None:
        self._console, self._json = console, json
        self._status = console.status("") if console.is_terminal and not json else None
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Hides the spinner."""
        if self._status is not None:
            self._status.stop()

    def wait(self, what: str) -> None:
        if self._status is not None:
            self._status.update(f"{what} …")
            self._status.start()
        elif not self._json:
            self._console.print(f"  {what} …")

    def done(self, what: str, seconds: float) -> None:
        if self._json:
            print_json({"event": "step", "step": what, "seconds": round(seconds, 2)})
        else:
            self._console.print(f"[green]✓[/] {escape(what)} [dim]({seconds:.1f} s)[/]")

    def show(self, status: Status) -> None:
        if status.kind in ("starting", "stopping"):
            self.wait(f"{status.kind} {status.subject}")
        elif self._json:
            fields = {"subject": status.subject, "text": status.text, "seconds": round(status.seconds, 2)}
            print_json({"event": status.kind, **fields})
        elif status.kind == "up":
            self.done(f"{status.subject:12} {status.text}", status.seconds)
        else:
            self._console.print(f"[yellow]![/] {escape(SENTENCES[status.kind].format(status))}")


SENTENCES = {
    "ended": "{0.subject} ended by itself ({0.text}); it is started again",
    "failed": "{0.subject} does not start: {0.text}; trying again",
    "again": "{0.subject} is back at {0.text} after {0.seconds:.1f} s",
    "killed": "{0.subject} was killed on request",
    "added": "{0.subject} was added: {0.text}",
    "note": "{0.subject}: {0.text}",
}


def check(name: str, text: str, json: bool) -> None:
    """Reports syntax errors before anything is started."""
    from tocsin.cluster.statements.parser import iter_statements

    try:
        for _ in iter_statements(text):
            pass
    except TocsinError as error:
        report(error, json=json, script=text, name="" if name == "-" else name)
        raise typer.Exit(1) from error


def run_script(deployment: LocalDeployment, name: str, text: str, progress: Progress, json: bool) -> None:
    from tocsin.local.scripts import Scripts

    scripts, began = Scripts(deployment.home), time.monotonic()
    left = scripts.remaining(text)
    progress.wait(f"running {name}")
    try:
        if left.marks:
            marks = iter(left.marks)
            with Client(deployment.cluster, deployment.cluster_token) as client:
                for event in events(client, left.text):
                    if "outcome" in event:
                        scripts.done(next(marks))
    except TocsinError as error:
        progress.pause()
        report(error, json=json, script=text, name=name)
        raise typer.Exit(1) from error
    progress.done(f"{Path(name).name}: {len(left.marks)} statements run", time.monotonic() - began)


def print_addresses(deployment: LocalDeployment, json: bool) -> None:
    found = deployment.addresses
    if json:
        print_json({"event": "ready", **found})
        return
    first = next(iter(found["brokers"].values()))
    lines = [
        "",
        "Tocsin is up.",
        f"  page       {found['page']}",
        f"  publish    {found['cluster']}/feeds/FEED",
        f"  subscribe  {first}, or any broker that {found['coordinator']} names",
        f"  home       {found['home']}",
        "",
        "Next, in another terminal:",
        *(f"  {line}" for line in settings(found, first)),
        "  tocsin sql FILE                 create datasets, feeds and channels",
        "  tocsin pub FEED FILE            publish records, one JSON object a line",
        "  tocsin sub CHANNEL NAME=VALUE   subscribe and print the notifications",
        "  tocsin top                      brokers and their load",
        "",
        "Ctrl-C stops everything.",
    ]
    print_line("\n".join(lines))
    sys.stdout.flush()


def settings(found: dict[str, Any], broker: str) -> list[str]:
    """What other commands need when the addresses are not the default ones."""
    if (found["cluster"], broker, found["coordinator"]) == (URL, BROKER, COORDINATOR):
        return []
    return [f"export TOCSIN_URL={found['cluster']} TOCSIN_BROKER={broker} TOCSIN_COORDINATOR={found['coordinator']}"]
