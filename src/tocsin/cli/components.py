"""``tocsin balance components`` and ``use``: what strategies can be made of, what runs, and another choice."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from tocsin.balancing.catalogue.places import PLACES, catalogue
from tocsin.balancing.catalogue.use import shown
from tocsin.balancing.catalogue.view import CatalogueView, UseView, rows, view
from tocsin.cli.coordinator_options import COORDINATOR, CoordinatorToken, Where
from tocsin.cli.http import Client, bearer
from tocsin.cli.output import Json, print_json, print_line, print_table
from tocsin.cli.peers import ObserverToken
from tocsin.cli.peers import Where as AtBroker
from tocsin.errors import UserError

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the strategy.")]
Swaps = Annotated[
    list[str] | None,
    typer.Option(
        "--component",
        metavar="PLACE=NAME[,SETTING=VALUE…]",
        help="A component instead of the strategy's own; several guards with +.",
    ),
]


def show_components(
    coordinator: Where = "",
    broker: AtBroker = "",
    admin_token: CoordinatorToken = "",
    observer_token: ObserverToken = "",
    json: Json = False,
) -> None:
    """Print the components that strategies can be made of; with an address also those that run there.

    Without --coordinator and --broker it prints what is installed here.

    \b
    Example:
      tocsin balance components --coordinator http://127.0.0.1:8482
    """
    found = [_asked(coordinator, admin_token, "/balance/components")] if coordinator else []
    found += [_asked(broker, observer_token, "/balancing/components")] if broker else []
    found = found or [view(catalogue(place)) for place in PLACES]
    if json:
        print_json(found)
        return
    for each in found:
        _print(each)


def _asked(address: str, token: str, path: str) -> CatalogueView:
    with Client(address, token) as client:
        return msgspec.convert(client.call("GET", path), CatalogueView)


def _print(found: CatalogueView) -> None:
    print_line(f"at {found.place}:")
    print_table(["kind", "name", "settings (default)", "runs as", "what it is"], rows(found), [False] * 5)
    if found.running:
        print_line(f"strategy {found.strategy or 'none'}:")
        lines = [[slot, _text(each)] for slot, each in found.running.items()]
        print_table(["place", "component"], lines, [False, False])


def _text(use: UseView | list[UseView]) -> str:
    if isinstance(use, list):
        return " + ".join(map(_text, use)) or "none"
    given = ", ".join(f"{name} {shown(value)}" for name, value in use.settings.items())
    return f"{use.use} ({given})" if given else use.use


def use_strategy(
    strategy: Annotated[str, typer.Argument(help="Name of a strategy; '' for none.")],
    settings: Settings = None,
    components: Swaps = None,
    coordinator: Where = COORDINATOR,
    admin_token: CoordinatorToken = "",
    json: Json = False,
) -> None:
    """Have the coordinator balance in another way from now on, also after a restart.

    Brokers that balance among themselves read their configuration again at the signal HUP.

    \b
    Example:
      tocsin balance use multistage --set alpha=0.2 --component migrate_balancer=sdm
    """
    body = {
        "strategy": strategy,
        "settings": dict(pair(each, "--set") for each in settings or ()),
        "components": dict(swap(each) for each in components or ()),
    }
    with Client(coordinator) as client:
        found = client.call("PUT", "/strategy", json=body, headers=bearer(admin_token))
    if json:
        print_json(found)
    else:
        print_line(f"the coordinator balances with {found['strategy'] or 'no strategy'}")


def pair(text: str, option: str) -> tuple[str, float | str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"{option} {text!r} is not NAME=VALUE", hint=f"such as {option} alpha=0.2")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def swap(text: str) -> tuple[str, Any]:
    """``detector=cov,alpha=0.3`` as a configuration has it."""
    slot, equals, given = text.partition("=")
    if not slot or not equals:
        hint = "such as --component detector=cov,alpha=0.3"
        raise UserError(f"--component {text!r} is not PLACE=NAME", hint=hint)
    uses = [_use(each) for each in given.split("+") if each]
    return slot, uses if slot == "guards" or len(uses) > 1 else (uses[0] if uses else "")


def _use(text: str) -> Any:
    name, *settings = text.split(",")
    return {"use": name} | dict(pair(each, "--component") for each in settings) if settings else name
