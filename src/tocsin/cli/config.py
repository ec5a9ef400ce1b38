"""``tocsin config``: the settings, their environment names and a file to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tocsin import config as settings
from tocsin.cli.output import Json, print_json, print_table


def config(
    file: Annotated[Path | None, typer.Option("--config", help="Show what this file and the environment give.")] = None,
    reference: Annotated[bool, typer.Option("--reference", help="Print a table of all settings.")] = False,
    json: Json = False,
) -> None:
    """Print a configuration file with every setting, its meaning and its default.

    \b
    Example:
      tocsin config > tocsin.toml && tocsin cluster --config tocsin.toml
    """
    if file is not None:
        print_json(settings.load(str(file)))
        return
    names = ("name", "environment", "default", "meaning")
    if json:
        print_json([dict(zip(names, row, strict=True)) for row in settings.rows()])
    elif reference:
        print_table(names, settings.rows())
    else:
        sys.stdout.write(template())


def template() -> str:
    """A TOML file that changes nothing: every setting is there, commented out, with its default."""
    lines = ["# Settings of a Tocsin data cluster. Take the # away from what you change.", ""]
    nested = []
    for name, env, default, meaning in settings.rows():
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
