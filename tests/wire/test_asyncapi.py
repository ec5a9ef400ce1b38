"""The AsyncAPI document is generated, committed, and valid AsyncAPI 3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tocsin.broker.transport.websocket import PATH
from tocsin.wire import messages as wire
from tocsin.wire.asyncapi import ADDRESS, ANSWERS, BROKERS, CLIENTS, document, tag, text
from tocsin.wire.close_codes import CLOSES
from tocsin.wire.links import CARRIERS, LinkBase

FILE = Path(__file__).parents[2] / "docs" / "reference" / "asyncapi.json"

NAMES = {"propertyNames": {"pattern": r"^[A-Za-z0-9._-]+$"}}
REF = {
    "type": "object",
    "properties": {"$ref": {"type": "string", "pattern": "^#/"}},
    "required": ["$ref"],
    "additionalProperties": False,
}
EXTENSIONS = {"^x-": {}}


def fixed(required: list[str], **properties: Any) -> dict[str, Any]:
    """The schema of an AsyncAPI object with these fields and extensions."""
    return {
        "type": "object",
        "required": required,
        "properties": properties,
        "patternProperties": EXTENSIONS,
        "additionalProperties": False,
    }


STRING = {"type": "string"}
REFS = {"type": "array", "items": REF}
#: The rules of AsyncAPI 3.0.0 for the parts that our document has.
ASYNCAPI = fixed(
    ["asyncapi", "info"],
    asyncapi={"const": "3.0.0"},
    info=fixed(["title", "version"], title=STRING, version=STRING, description=STRING),
    defaultContentType=STRING,
    servers={
        **NAMES,
        "additionalProperties": fixed(
            ["host", "protocol"], host=STRING, protocol=STRING, description=STRING, pathname=STRING
        ),
    },
    channels={
        **NAMES,
        "additionalProperties": fixed(
            [],
            address={"type": ["string", "null"]},
            title=STRING,
            description=STRING,
            messages={**NAMES, "additionalProperties": REF},
            bindings={
                "type": "object",
                "properties": {
                    "ws": fixed(
                        [], method={"enum": ["GET", "POST"]}, query={}, headers={}, bindingVersion={"const": "0.1.0"}
                    )
                },
            },
        ),
    },
    operations={
        **NAMES,
        "additionalProperties": fixed(
            ["action", "channel"],
            action={"enum": ["send", "receive"]},
            channel=REF,
            messages=REFS,
            reply=fixed([], channel=REF, messages=REFS),
        ),
    },
    components=fixed(
        [],
        messages={
            **NAMES,
            "additionalProperties": fixed([], name=STRING, summary=STRING, description=STRING, payload=REF),
        },
        schemas={**NAMES, "additionalProperties": {"type": "object"}},
    ),
)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return document()


def resolve(made: dict[str, Any], ref: str) -> Any:
    found: Any = made
    for step in ref.removeprefix("#/").split("/"):
        found = found[step]
    return found


def refs(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [ref for each in part.values() for ref in refs(each)]
    return [ref for each in part for ref in refs(each)] if isinstance(part, list) else []


def valid(made: dict[str, Any], name: str, message: Any) -> bool:
    whole = {"$ref": f"#/components/schemas/{name}", "components": made["components"]}
    return bool(jsonschema.Draft202012Validator(whole).is_valid(message))


def test_the_committed_file_is_current():
    assert FILE.read_text() == text(), "run: python tests/docs/reference_pages.py docs/reference"


def test_the_document_has_the_structure_of_asyncapi_3(made):
    jsonschema.Draft202012Validator(ASYNCAPI).validate(json.loads(text()))


def test_every_reference_resolves(made):
    assert all(resolve(made, ref) for ref in refs(made))


def test_operations_use_messages_of_their_channel(made):
    for operation in made["operations"].values():
        for part in (operation, operation.get("reply", {})):
            assert all(each["$ref"].startswith(part["channel"]["$ref"]) for each in part.get("messages", []))


def test_every_schema_is_valid_json_schema(made):
    for schema in made["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_document_lists_every_message_with_its_sender(made):
    received = {f"receive_{tag(kind)}" for kind in CLIENTS}
    assert set(made["operations"]) == received | {f"send_{tag(kind)}" for kind in (*BROKERS, *CARRIERS)}
    assert len(made["components"]["messages"]) == len(wire.Message.__subclasses__()) + len(LinkBase.__subclasses__())


def test_the_document_lists_every_close_code(made):
    assert [each["code"] for each in made["channels"]["subscriber"]["x-close-codes"]] == list(CLOSES)


def test_every_message_with_an_id_has_an_answer():
    requests = [kind for kind in CLIENTS if "id" in kind.__struct_fields__]
    assert set(ANSWERS) == {*requests, wire.Ping}


@pytest.mark.parametrize("kind", [wire.Hello, wire.Subscribe, wire.Unsubscribe, wire.Publish])
def test_the_description_of_an_answer_names_its_request(kind):
    answer = ANSWERS[kind][0]
    assert f"Answers ``{tag(kind)}``" in (answer.__doc__ or "") and f"``{tag(answer)}``" in (kind.__doc__ or "")


def test_the_address_is_the_brokers_path():
    assert ADDRESS == PATH


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (wire.Subscribe(1, "C", ["x"], 3), True),
        (wire.Subscribe(1, "C", {"kind": "x"}), True),
        (wire.Gap(3, 8, 12, "retention"), True),
        (wire.Error(None, "not_found", "no"), True),
        (wire.Ack({3: 7}), True),
        (wire.Subscribe(1, ""), False),
        (wire.Unsubscribe(-1, 3), False),
        (wire.Live(0, 3), False),
    ],
    ids=repr,
)
def test_the_schemas_accept_what_the_code_accepts(made, message, expected):
    assert valid(made, type(message).__name__, json.loads(wire.encode(message))) is expected
