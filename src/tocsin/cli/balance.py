"""``tocsin balance``, ``drain``, ``undrain``, ``forget`` and ``top``: decisions and view of the coordinator."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tocsin.balancing.model.loads import figure
from tocsin.cli.components import show_components, use_strategy
from tocsin.cli.coordinator_options import COORDINATOR, CoordinatorToken, Where
from tocsin.cli.http import Client, bearer, path
from tocsin.cli.output import URL, Json, Token, Url, out, print_json, print_line, print_table
from tocsin.cli.overlay_view import drawing
from tocsin.cli.peers import show_peers
from tocsin.errors import TocsinError

BrokerName = Annotated[str, typer.Argument(help="Name of a broker.")]

balance = typer.Typer(no_args_is_help=True, help="Show the coordinator's decisions and its present plan.")
balance.command("peers")(show_peers)
balance.command("components")(show_components)
balance.command("use")(use_strategy)


@balance.command("log")
def show_log(
    coordinator: Where = COORDINATOR,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many of the newest decisions.")] = 50,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Print the newest decisions with their reasons: placements, migrations, brokers that joined and left.

    \b
    Example:
      tocsin balance log --limit 20
    """
    with Client(coordinator, admin_token) as client:
        entries = client.call("GET", "/balance/log", params={"limit": limit})["log"]
    if json:
        print_json(entries)
        return
    if not entries:
        print_line("The log is empty.")
        return
    rows = [
        [clock(each["time"]), each["kind"], each["subscriber"][:12], each["source"], each["target"], each["text"]]
        for each in entries
    ]
    print_table(["time", "what", "subscriber", "from", "to", "reason"], rows, [False] * 6)


@balance.command("plan")
def show_plan(
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Print the migrations that the coordinator would plan now. Nothing is carried out.

    \b
    Example:
      tocsin balance plan
    """
    with Client(coordinator, admin_token) as client:
        plan = client.call("GET", "/balance/plan")
    if json:
        print_json(plan)
        return
    before, after = plan["before"], plan["after"]
    print_line(f"strategy {plan['strategy'] or 'none'}: {len(plan['migrations'])} migrations")
    rows = [[name, figure(before[name]), figure(after[name])] for name in ("maximum", "mean", "cov")] + [
        ["lower bound", figure(plan["bound"]), figure(plan["bound"])]
    ]
    print_table(["load", "now", "then"], rows, [False, True, True])
    if plan["migrations"]:
        print_table(
            ["subscriber", "from", "to", "reason"],
            [[each["subscriber"][:12], each["from"], each["to"], each["reason"]] for each in plan["migrations"][:50]],
            [False] * 4,
        )
    if deferred := plan["deferred"]:
        held = deferred["state"] == "held back"
        print_line(deferred["text"] + (f", evaluated again in {deferred['next_evaluation']:.0f} s" if held else ""))


def drain(
    broker: BrokerName, coordinator: Where = COORDINATOR, admin_token: CoordinatorToken = "", json: Json = False
) -> None:
    """Drain a broker: its subscribers migrate to others, and new subscribers are not placed there.

    \b
    Example:
      tocsin drain north
    """
    _switch(broker, "drain", coordinator, admin_token, json)


def undrain(
    broker: BrokerName, coordinator: Where = COORDINATOR, admin_token: CoordinatorToken = "", json: Json = False
) -> None:
    """Let a drained broker accept subscribers again.

    \b
    Example:
      tocsin undrain north
    """
    _switch(broker, "undrain", coordinator, admin_token, json)


def forget(
    broker: BrokerName,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    url: Url = URL,
    token: Token = "",
    json: Json = False,
) -> None:
    """Forget a broker that is gone for good, or has lost its home: another one may have its name.

    A name belongs to the key in the home of its first broker. Its subscriptions at the data cluster stay, for the next
    broker of this name; DROP BROKER deletes them. An empty --coordinator or --url leaves that part out.

    \b
    Example:
      tocsin forget north
    """
    done: list[str] = []
    if url:
        with Client(url, token) as cluster:
            cluster.call("DELETE", path("brokers", broker, "key"))
        done.append("data cluster")
    if coordinator:
        with Client(coordinator) as client:
            client.call("DELETE", path("brokers", broker), headers=bearer(admin_token))
        done.append("coordinator")
    if json:
        print_json({"broker": broker, "forgotten": done})
    else:
        print_line(f"another broker may have the name {broker} at: {', '.join(done) or 'no part'}")


def _switch(broker: str, what: str, coordinator: str, token: str, json: bool) -> None:
    with Client(coordinator) as client:
        found = client.call("POST", path("brokers", broker, what), headers=bearer(token))
    if json:
        print_json(found)
    else:
        print_line(f"{found['broker']} is {found['state']}; tocsin top shows the progress")


def top(
    coordinator: Where = COORDINATOR,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Show brokers, load, balance and migrations, live. Ctrl-C ends it.

    \b
    Example:
      tocsin top
    """
    with Client(coordinator, admin_token) as client:
        if json or once or not out().is_terminal:
            found = client.call("GET", "/topology")
            print_json(found) if json else out().print(screen(found))
            return
        console = out()
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for view in views(client):
                live.update(view, refresh=True)
                time.sleep(1.0)


def views(client: Client) -> Iterator[Any]:
    while True:
        try:
            yield screen(client.call("GET", "/topology"))
        except TocsinError as error:
            yield Text(str(error), style="red")


def screen(found: dict[str, Any]) -> Group:
    head = Text(
        f"{found['subscribers']:,} subscribers   cov {found['cov']:.3f}   maximum {figure(found['maximum'])} "
        f"(bound {figure(found['bound'])})   {found['pending']} migrating   "
        f"placement {found['placement']}   {shown_strategy(found)}"
    )
    if not found["brokers"]:
        return Group(head, Text("No broker has registered yet: tocsin broker --coordinator ADDRESS"))
    table = Table(box=None, pad_edge=False)
    for name in ("broker", "state", "subscribers", "in", "out", "load", "", "waiting", "lagging", "leaving"):
        table.add_column(name, justify="left" if name in ("broker", "state", "") else "right")
    most = max((each["load_in"] + each["load_out"] for each in found["brokers"]), default=0.0) or 1.0
    for each in sorted(found["brokers"], key=lambda each: str(each["name"])):
        load = each["load_in"] + each["load_out"]
        table.add_row(
            each["name"],
            each["state"],
            f"{each['subscribers']:,}",
            figure(each["load_in"]),
            figure(each["load_out"]),
            figure(load),
            "█" * round(20 * load / most),
            f"{each['waiting']}",
            f"{each['lagging']}",
            f"{each['leaving']}",
        )
    return Group(head, table, *drawing(found["brokers"]))


def shown_strategy(found: dict[str, Any]) -> str:
    if found.get("balancing") == "peers":
        return "brokers balance among themselves"
    return f"strategy {found['strategy'] or 'none'}"


def clock(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%H:%M:%S")
