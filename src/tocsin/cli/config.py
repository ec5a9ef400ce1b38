"""``tocsin config``: the settings, their environment names and a file to start from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin import config as settings
from tocsin.cli.output import Json, print_json, print_table
from tocsin.errors import UserError

PARTS: dict[str, tuple[Callable[[str], Any], Callable[[], list[tuple[str, str, str, str]]]]] = {
    "data cluster": (settings.load, settings.rows),
    "broker": (settings.load_broker, partial(settings.rows, settings.BrokerConfig, variables="TOCSIN_BROKER_")),
    "coordinator": (
        settings.load_coordinator,
        partial(settings.rows, settings.CoordinatorConfig, variables="TOCSIN_COORDINATOR_"),
    ),
}


def config(
    file: Annotated[
        Path | None, typer.Option("--config", help="Show the settings of this file and the environment.")
    ] = None,
    broker: Annotated[bool, typer.Option("--broker", help="Settings of a broker instead of a data cluster.")] = False,
    coordinator: Annotated[
        bool, typer.Option("--coordinator", help="Settings of a coordinator instead of a data cluster.")
    ] = False,
    reference: Annotated[bool, typer.Option("--reference", help="Print a table of all settings.")] = False,
    json: Json = False,
) -> None:
    """Print a configuration file with every setting, its meaning and its default.

    \b
    Example:
      tocsin config > tocsin.toml && tocsin cluster --config tocsin.toml
      tocsin config --broker > broker.toml && tocsin broker --config broker.toml
      tocsin config --coordinator > coordinator.toml && tocsin coordinator --config coordinator.toml
    """
    if broker and coordinator:
        raise UserError("give --broker or --coordinator, not both")
    part = "coordinator" if coordinator else "broker" if broker else "data cluster"
    load, rows = PARTS[part]
    if file is not None:
        print_json(load(str(file)))
        return
    names = ("name", "environment", "default", "meaning")
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in rows()])
    elif reference:
        print_table(names, rows())
    else:
        sys.stdout.write(template(part, rows()))


def template(part: str = "data cluster", rows: list[tuple[str, str, str, str]] | None = None) -> str:
    """A TOML file with every setting, commented out, with its default."""
    lines = [f"# Settings of a Tocsin {part}. Remove the # from the lines that you change.", ""]
    nested = []
    for name, env, default, meaning in settings.rows() if rows is None else rows:
        section, _, last = name.rpartition(".")
        entry = [f"# {meaning} ({env})", f"#{last} = {default}", ""]
        if section:
            nested.append((section, entry))
        else:
            lines += entry
    current = ""
    for section, entry in nested:
        if section != current:
            lines.append(f"[{section}]")
            current = section
        lines += entry
    return "\n".join(lines)
