"""``tocsin balance peers``: what balances at a broker, and what it knows of the others."""

from __future__ import annotations

from typing import Annotated

import typer

from tocsin.balancing.model.loads import figure
from tocsin.cli.http import Client
from tocsin.cli.output import Json, print_json, print_line, print_table

Where = Annotated[str, typer.Option("--broker", envvar="TOCSIN_BROKER", help="Address of the broker.")]
ObserverToken = Annotated[
    str,
    typer.Option("--observer-token", envvar="TOCSIN_BROKER_OBSERVER_TOKEN", help="The broker's observer_token."),
]
BROKER = "http://127.0.0.1:8481"


def show_peers(broker: Where = BROKER, observer_token: ObserverToken = "", json: Json = False) -> None:
    """Print what balances at a broker, and what it knows of the others, if brokers balance among themselves.

    \b
    Example:
      tocsin balance peers --broker http://127.0.0.1:8481
    """
    with Client(broker, observer_token) as client:
        found = client.call("GET", "/balancing")
    if json:
        print_json(found)
        return
    if found["mode"] != "peers":
        print_line("The coordinator balances; tocsin balance plan shows how.")
        return
    settings = ", ".join(f"{name} {value:g}" for name, value in found["settings"].items())
    print_line(f"strategy {found['strategy']}: {settings}")
    print_line(
        f"load {figure(found['load'])}   subscribers {figure(found['subscribers'])}   leaving {found['leaving']}   "
        f"arriving {found['arriving']}   migrated from here {found['migrated']}   sessions {found['sessions']}"
        + ("   draining" if found["draining"] else "")
    )
    rows = [
        [each["broker"], "up" if each["reachable"] else "gone", shown(each["load"]), shown(each["subscribers"])]
        for each in found["peers"]
    ]
    print_table(["broker", "state", "load", "subscribers"], rows, [False, False, True, True])
    for each in found["refusals"]:
        print_line(f"refused by {each}")


def shown(value: float | None) -> str:
    """Empty where it is not known at the moment."""
    return "" if value is None else figure(value)
