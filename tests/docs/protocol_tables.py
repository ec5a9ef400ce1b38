"""The tables of docs/reference/protocol.md and links.md, made from the message types and close codes.

``python tests/docs/protocol_tables.py`` updates them.
"""

from __future__ import annotations

import re
from typing import Any

from pages import DOCS
from reference_pages import table, typed

from tocsin.wire.asyncapi import BROKERS, CLIENTS, LINKS, Kind, schemas, summary, tag
from tocsin.wire.close_codes import CLOSES

PAGE, LINKS_PAGE = (DOCS / "reference" / name for name in ("protocol.md", "links.md"))
_MESSAGES = re.compile(r"(<!-- messages: (\w+); .*? -->\n).*?(<!-- /messages -->)", re.DOTALL)
_CLOSES = re.compile(r"(<!-- closes: .*? -->\n).*?(<!-- /closes -->)", re.DOTALL)


def messages(kinds: tuple[Kind, ...], level: str = "###") -> str:
    found = schemas()
    out = []
    for kind in kinds:
        out += [f"{level} {tag(kind)}", summary(kind)]
        schema = found[kind.__name__]
        rows = [
            [f"`{name}`", kind_of(item), "yes" if name in schema["required"] else "", meaning(item)]
            for name, item in schema["properties"].items()
            if name != "type"
        ]
        if rows:
            out.append(table(["field", "type", "always", "meaning"], rows))
    return "\n\n".join(["", *out, "", ""])


def meaning(schema: dict[str, Any]) -> str:
    """The description of a field, also of one that may be null."""
    found = [schema, *schema.get("anyOf", [])]
    return next((each["description"] for each in found if "description" in each), "")


def kind_of(schema: dict[str, Any]) -> str:
    """The parts of a message that are messages of their own are shown with their fields."""
    text = typed(schema)
    for name in re.findall(r"\[(\w+)\]\(#\w+\)", text):
        fields = ", ".join(f"`{each}`" for each in schemas()[name]["properties"])
        text = re.sub(rf"\[{name}\]\(#\w+\)", f"object with {fields}", text)
    return text


def closes() -> str:
    rows = [
        [str(each.code), f"`{each.name}`", "reconnect" if each.reconnect else "stop", each.meaning]
        for each in CLOSES.values()
    ]
    return "\n" + table(["code", "name", "then", "meaning"], rows) + "\n\n"


def current(text: str) -> str:
    sides = {"client": CLIENTS, "broker": BROKERS, "link": LINKS}
    levels = {"link": "##"}
    text = _MESSAGES.sub(
        lambda found: found[1] + messages(sides[found[2]], levels.get(found[2], "###")) + found[3], text
    )
    return _CLOSES.sub(lambda found: found[1] + closes() + found[2], text)


if __name__ == "__main__":
    for page in (PAGE, LINKS_PAGE):
        page.write_text(current(page.read_text()))
