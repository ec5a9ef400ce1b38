"""``python tests/docs/reference_pages.py FOLDER`` writes the reference pages that are generated from the code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import typer
from balancing_reference import sections
from markdown_table import table

from tocsin import config as settings
from tocsin.cli.config import PARTS
from tocsin.cli.main import application
from tocsin.cluster.http import OPERATIONS
from tocsin.cluster.http.openapi import document
from tocsin.cluster.query import allow_list
from tocsin.coordinator.server import ROUTES
from tocsin.http.routes import Described
from tocsin.wire import asyncapi

NOTE = "<!-- Written by `python tests/docs/reference_pages.py docs/reference`; change the code, not this page. -->"


def pages() -> dict[str, str]:
    return {
        "cli.md": cli(),
        "http.md": http(),
        "http-bodies.md": http_bodies(),
        "coordinator.md": coordinator(),
        "configuration.md": configuration(),
        "balancing.md": balancing(),
        "functions.md": functions(),
        "asyncapi.json": asyncapi.text(),
    }


def cli() -> str:
    group: Any = typer.main.get_command(application())
    out = [
        "# Command line",
        NOTE,
        "Every command takes `--json` to print for programs, and those that talk to a data cluster take `--url` or "
        "`TOCSIN_URL`. Results go to standard output; errors, hints and progress bars to standard error. Exit codes: 0 "
        "done, 1 it went wrong, 2 the command line is wrong, 130 interrupted. There is colour on a terminal only, and "
        "none with `NO_COLOR`.",
    ]
    for name, command in group.commands.items():
        out += described(name, command)
        for part, each in getattr(command, "commands", {}).items():
            out += described(f"{name} {part}", each)
    return "\n\n".join(out) + "\n"


def functions() -> str:
    kept = {family: names for family, names in allow_list.FAMILIES.items() if family not in ("syntax", "operators")}
    return (
        "\n\n".join(
            [
                "# Functions",
                NOTE,
                "Queries, and the bodies of channels, functions and procedures, may call the functions in this table "
                "and those that you created. [Statements](statements.md#functions) describes Tocsin's; the others "
                "are Spark SQL's. Every other function is refused, even if a newer Spark has it: make it of allowed "
                "functions with `CREATE FUNCTION`.",
                table(["family", "functions"], [(family, _spelled(names)) for family, names in kept.items()]),
                "## Refused",
                "These functions reach outside of the data:",
                table(
                    ["functions", "each of them"],
                    [(_spelled(names), reason) for reason, names in allow_list.REFUSED_BY_REASON.items()],
                ),
            ]
        )
        + "\n"
    )


def _spelled(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())


def described(name: str, command: Any) -> list[str]:
    # The first paragraph says it of all commands.
    rows = [row for row in parameters(command) if row[0] != "`--json`"]
    options = [table(["option", "meaning"], rows)] if rows else []
    return [f"## tocsin {name}", *prose(command.help), *prose(command.epilog or ""), *options]


def prose(text: str) -> list[str]:
    out: list[str] = []
    for paragraph in text.strip(" \n").split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.split("\n")[1:]
            out.append("```sh\n" + "\n".join(line.strip() for line in lines if line.strip() != "Example:") + "\n```")
        else:
            out.append(" ".join(line.strip() for line in paragraph.split("\n")))
    return [part for part in out if part]


def parameters(command: Any) -> list[list[str]]:
    rows = []
    for item in command.params:
        if item.name == "help":
            continue
        option = item.param_type_name == "option"
        names = ", ".join(f"`{name}`" for name in sorted(item.opts, key=len)) if option else f"`{item.name.upper()}`"
        meaning = item.help or ""
        if item.default not in (None, False) and not callable(item.default):
            meaning += f" Default: `{getattr(item.default, 'value', item.default)}`."
        if item.envvar:
            meaning += f" Environment: `{item.envvar}`."
        rows.append([names, meaning])
    return rows


def configuration() -> str:
    out = [
        "# Configuration",
        NOTE,
        "From a TOML file (`--config FILE`; `tocsin config` prints one to start from), then from the environment, then "
        "from the command line; the later one wins. An unknown setting is an error.",
        "## Data cluster",
        "`tocsin cluster --config FILE`; `tocsin config` prints the file.",
        settings_table(settings.rows()),
        "## Broker",
        "`tocsin broker --config FILE`; `tocsin config --broker` prints the file.",
        settings_table(PARTS["broker"][1]()),
        "## Coordinator",
        "`tocsin coordinator --config FILE`; `tocsin config --coordinator` prints the file.",
        settings_table(PARTS["coordinator"][1]()),
    ]
    return "\n\n".join(out) + "\n"


def balancing() -> str:
    out = [
        "# Strategies and their components",
        NOTE,
        "A strategy consists of components with names. `balancing.components` of the configuration replaces single "
        'ones, by their place in the strategy: `detector = "relative"`, or with settings '
        '`detector = { use = "relative", k1 = 1.2 }`; guards are a list. `tocsin balance components` prints what '
        "exists and what runs, `tocsin balance use` changes it at a coordinator that runs. What cannot work is refused "
        "with what would fit. Components without `always` can be chosen. "
        "[How balancing works](../explanation/balancing.md), [write your own](../how-to/write-a-strategy.md).",
        *sections(),
    ]
    return "\n\n".join(out) + "\n"


def settings_table(rows: list[tuple[str, str, str, str]]) -> str:
    shown = [[f"`{name}`", f"`{env}`", f"`{default}`", meaning] for name, env, default, meaning in rows]
    return table(["setting", "environment", "default", "meaning"], shown)


def http() -> str:
    found = document(OPERATIONS)
    out = [
        "# HTTP interface of the data cluster",
        NOTE,
        "The same as an OpenAPI 3.1 document: `GET /openapi.json`. Every error is JSON, "
        '`{"error": {"code": …, "message": …, "hint": …}}`: `code` is for programs and stays the same, the status goes '
        "with the code, and some codes have more fields. Names in paths are percent-encoded. An unknown query "
        "parameter or field is an error.",
    ]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            out += [f"## {method.upper()} {path}", *describe(operation)]
    return ("\n\n".join(out) + "\n").replace("](#", "](http-bodies.md#")


def http_bodies() -> str:
    out = ["# Bodies of the data cluster's HTTP interface", NOTE, "What the [requests and answers](http.md) hold."]
    for name, schema in sorted(document(OPERATIONS)["components"]["schemas"].items()):
        out += [f"## {name}", *body(schema)]
    return "\n\n".join(out) + "\n"


def coordinator() -> str:
    out = [
        "# HTTP interface of the coordinator",
        NOTE,
        "Brokers and clients use it; so can you. Bodies and answers are JSON, an unknown field or query parameter is "
        'an error, and errors look as everywhere: `{"error": {"code": …, "message": …, "hint": …}}`. A token goes into '
        "the header `Authorization: Bearer TOKEN`. Names in paths are percent-encoded. How it works: "
        "[the coordinator](../explanation/coordinator.md).",
        "## Routes",
        table(["route", "meaning", "body", "answer", "who may"], [routed(each) for each in ROUTES]),
        "## Bodies",
    ]
    bodies = [kind for each in ROUTES for kind in (each.body, each.answer) if isinstance(kind, type)]
    for name, schema in msgspec.json.schema_components(bodies, ref_template="#/{name}")[1].items():
        out += [f"### {name}", *body(schema)]
    return "\n\n".join(out) + "\n"


def routed(each: Described) -> list[str]:
    def linked(kind: type[Any]) -> str:
        return f"[{kind.__name__}](#{kind.__name__.lower()})"

    taken = linked(each.body) if each.body is not None else ""
    given = each.answer if isinstance(each.answer, str) else linked(each.answer)
    return [f"`{each.method} {each.path}`", each.meaning, taken, given, each.who]


def describe(operation: dict[str, Any]) -> list[str]:
    out = [operation["summary"] + ".", operation.get("description", "")]
    rows = []
    for item in operation.get("parameters", []):
        meaning = item.get("description", item["schema"].get("description", ""))
        rows.append([f"`{item['name']}`", item["in"], typed(item["schema"]), meaning])
    if rows:
        out.append(table(["parameter", "in", "type", "meaning"], rows))
    lines = []
    if "requestBody" in operation:
        kinds = [f"`{media}`: {typed(each['schema'])}" for media, each in operation["requestBody"]["content"].items()]
        lines.append("- Body: " + ", ".join(kinds) + ".")
    errors = []
    for status, answer in operation["responses"].items():
        if int(status) >= 400:
            errors.append(f"{status} " + " ".join(f"`{word}`" for word in answer["description"].split(", ")))
        else:
            bodies = [f"`{media}`{shape(each)}" for media, each in answer["content"].items()]
            lines.append(f"- {status}: {answer['description']}. {', '.join(bodies)}.")
    out.append("\n".join([*lines, f"- Errors: {', '.join(errors)}."]))
    return [part for part in out if part]


def shape(content: dict[str, Any]) -> str:
    if "x-line-schema" in content:
        return f": a line is {typed(content['x-line-schema'])}"
    kind = typed(content["schema"])
    return "" if kind == "string" else f": {kind}"


def body(schema: dict[str, Any]) -> list[str]:
    rows = []
    for name, item in schema.get("properties", {}).items():
        need = "yes" if name in schema.get("required", []) else ""
        rows.append([f"`{name}`", typed(item), need, meaning(item)])
    text = schema.get("description", "").replace("``", "`")
    return [part for part in (text, table(["field", "type", "always", "meaning"], rows)) if part]


def meaning(schema: dict[str, Any]) -> str:
    """The description of a field, also of one that may be null."""
    found = [schema, *schema.get("anyOf", [])]
    return next((str(each["description"]) for each in found if "description" in each), "")


def typed(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(typed(each) for each in schema["anyOf"])
    if "enum" in schema:
        words = [f"`{word}`" for word in schema["enum"] if word is not None]
        return " or ".join(words) if len(words) <= 4 else "string"
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return "array of " + ", ".join(map(typed, schema["prefixItems"]))
        return f"array of {typed(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def main(folder: str) -> None:
    for name, text in pages().items():
        (Path(folder) / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
