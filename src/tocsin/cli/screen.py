"""What the demo shows on a terminal: brokers, balance, the newest notifications as people see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from tocsin.demo.loop import DemoLoop

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta", "bright_yellow")
#: Shelters that are named.
SHELTERS = 2


def overview(loop: DemoLoop, page: str, width: int) -> RenderableType:
    clock = f"{int(loop.now // 60):02}:{int(loop.now % 60):02}"
    head = Text.assemble(
        (f"{clock} ", "bold"),
        f"of the city (×{loop.options.speed:g})   ",
        f"{loop.connected:,} of {loop.options.subscribers:,} people connected   ",
        f"{len(loop.city.emergencies.active)} emergencies",
    )
    newest = sorted(loop.newest.values(), key=lambda each: -each["at"])[:7]
    sentences = [Text.from_markup(sentence(loop, each)) for each in newest]
    hint = Text(f"{page}   Ctrl-C ends it", style="dim")
    return Group(head, Text(), brokers_table(loop, width), balance(loop), Text(), *sentences, Text(), hint)


def brokers_table(loop: DemoLoop, width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, justify in (("broker", "left"), ("state", "left"), ("people", "right"), ("in/s", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("out/s", justify="right", no_wrap=True)
    if width > 66:
        table.add_column("load", no_wrap=True)
    found = {each["name"]: each for each in loop.topology.get("brokers", [])}
    most = max((each["load_in"] + each["load_out"] for each in found.values()), default=0.0) or 1.0
    room = max(0, min(40, width - 58))
    for number, name in enumerate(loop.supervisor.brokers):
        each, colour = found.get(name), COLOURS[number % len(COLOURS)]
        if each is None:
            table.add_row(Text(name, colour), "starting")
            continue
        load = each["load_in"] + each["load_out"]
        state = "killed" if name in loop.supervisor.killed else each["state"]
        cells: list[Any] = [Text(name, colour), Text(state, "" if state == "up" else "bold red")]
        cells += [f"{each['subscribers']:,}", size(each["load_in"]), size(each["load_out"])]
        bar = Text("█" * round(room * load / most), colour)
        table.add_row(*[*cells, bar][: len(table.columns)])
    return table


def balance(loop: DemoLoop) -> Text:
    topology, sums, late = loop.topology, loop.statistics.sums, loop.latency
    figures = [
        f"cov {topology.get('cov', 0.0):.3f}",
        f"{sums['migrations']:,} migrations",
        f"{sums['notifications']:,} notifications to {int(loop.statistics.reached.sum()):,} people",
    ]
    text = "   ".join(figures)
    if late.get("count"):
        text += f"\nlatency {late['p50_ms'] / 1e3:.1f} s, 99% within {late['p99_ms'] / 1e3:.1f} s"
    return Text(text, style="bold")


def size(number: float) -> str:
    """Bytes a second, short."""
    for unit in ("B", "kB", "MB"):
        if number < 1_000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1_000
    return f"{number:.1f} GB"


def sentence(loop: DemoLoop, notification: dict[str, Any]) -> str:
    """The person and the emergency; then the channel, and the shelters."""
    row, more = notification["rows"][0], len(notification["rows"]) - 1
    text = f"{row['kind'].capitalize()} in {row['location']}, level {row['severity']} of 5"
    if row.get("metres") is not None:
        text += f", {row['metres']:.0f} m away"
    if more:
        text += f" (and {more} more)"
    late = "" if notification["latency_ms"] is None else f", {notification['latency_ms'] / 1e3:.1f} s after the report"
    lines = f"  [bold]{escape(loop.city.people.name(notification['person']))}[/]: {escape(text)}\n"
    lines += f"    [dim]{notification['channel']}{late}[/]"
    if row.get("shelters"):
        named = ", ".join(f"{each['name']} {each['metres']:.0f} m" for each in row["shelters"][:SHELTERS])
        lines += f"\n    [green]→ {escape(named)}[/]"
    return lines


def channels_table(facts: dict[str, Any]) -> Table:
    table = Table(
        title="What the channels did", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("channel", no_wrap=True)
    for name in ("every s", "runs", "results", "mean ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in facts["channels"]:
        mean = "–" if each["mean_ms"] is None else f"{each['mean_ms']:.0f}"
        table.add_row(each["channel"], f"{each['period']:.3g}", str(each["executions"]), f"{each['results']:,}", mean)
        if each["state"] != "running":
            table.add_row(f"[red]  {each['state']}[/]")
    return table


def summary_lines(facts: dict[str, Any]) -> list[str]:
    late, cov = facts["latency_ms"], facts["cov"]
    first = facts["first_notification_seconds"]
    lines = [
        f"{facts['notifications']:,} notifications with {facts['results']:,} results reached "
        f"{facts['people_reached']:,} of {facts['people_connected']:,} people, the first after "
        + ("–" if first is None else f"{first:.1f} s"),
        f"from {facts['reports']:,} reports and {facts['locations']:,} locations in "
        f"{facts['seconds']:.0f} s ({facts['city_seconds'] / 60:.1f} minutes of the city).",
    ]
    if late["count"]:
        lines.append(
            f"From publication to notification: half within {late['p50_ms'] / 1e3:.2f} s, 99% within "
            f"{late['p99_ms'] / 1e3:.2f} s; waiting for the channel's period is part of it."
        )
    if cov is not None:
        lines.append(
            f"{facts['migrations']:,} migrations; cov {cov['worst']:.3f} at its worst, {cov['last']:.3f} at the end."
        )
    return lines
