"""``tocsin channels``: lists channels and their executions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tocsin.cli.http import Client, path
from tocsin.cli.output import URL, Json, Token, Url, print_json, print_line, print_table


def channels(
    name: Annotated[str | None, typer.Argument(help="Show this channel, with its body and last executions.")] = None,
    url: Url = URL,
    token: Token = "",
    json: Json = False,
) -> None:
    """List channels, or show one.

    \b
    Example:
      tocsin channels EmergenciesNearMe
    """
    with Client(url, token) as client:
        if name is None:
            show_all(client.call("GET", "/channels")["channels"], json)
            return
        channel = client.call("GET", path("channels", name))
        after = max(0, channel["last_execution"] - 10)
        executions = client.call("GET", path("channels", name, "executions"), params={"after": after})["executions"]
        show_one(channel, executions, json)


def show_all(found: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(found)
        return
    if not found:
        print_line("There are no channels.")
        return
    names = ["channel", "kind", "parameters", "period", "subscriptions", "executions", "state"]
    numbers = [False, False, False, True, True, True, False]
    print_table(names, ([*summary(channel)] for channel in found), numbers)


def summary(channel: dict[str, Any]) -> list[Any]:
    period = channel["period"]
    kind = channel["kind"] + (" push" if channel["push"] else "")
    parameters = ", ".join(f"{each['name']} {each['type']}" for each in channel["parameters"])
    state = channel["state"] if not channel["error"] else f"{channel['state']}: {channel['error']}"
    seconds = "" if period is None else f"{period:g} s"
    return [channel["name"], kind, parameters, seconds, channel["subscriptions"], channel["last_execution"], state]


def show_one(channel: dict[str, Any], executions: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(channel | {"executions": executions})
        return
    show_all([channel], False)
    print_line("")
    print_line(channel["body"])
    if not executions:
        return
    print_line("")
    names = ["execution", "rows", "subscriptions", "bytes", "seconds"]
    rows = ([*(each[name] for name in names[:-1]), f"{each['finished'] - each['time']:.3f}"] for each in executions)
    print_table(names, rows, [True] * 5)
