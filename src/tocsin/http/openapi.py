"""The OpenAPI 3.1 document of a server whose routes are declared with ``route``, and what all such documents share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tocsin import __version__
from tocsin.errors import TocsinError
from tocsin.http.responses import JSON
from tocsin.http.routes import Described

REFS = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


class Problem(Struct, frozen=True):
    """``code`` is for programs and does not change; some codes have more fields."""

    code: str
    message: str
    hint: str | UnsetType = UNSET


class ErrorBody(Struct, frozen=True):
    error: Problem


def document(title: str, routes: Iterable[Described]) -> dict[str, Any]:
    table = list(routes)
    kinds = [ErrorBody, *(kind for each in table for kind in (each.body, each.answer) if is_struct(kind))]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFS)
    schemas["Problem"]["properties"]["code"]["enum"] = codes()
    paths: dict[str, dict[str, Any]] = {}
    for each in table:
        paths.setdefault(_PARAMETER.sub(r"{\1}", each.path), {})[each.method.lower()] = _operation(each)
    info = {"title": title, "version": __version__, "description": "Every error is JSON with a stable `code`."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _operation(each: Described) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(each.path)
    ]
    if each.query is not None:
        parameters += query_parameters(each.query)
    found: dict[str, Any] = {"description": str(each.answer) or each.meaning}
    if is_struct(each.answer):
        found = {"description": each.meaning, "content": {JSON: {"schema": schema(each.answer)}}}
    error = {"description": "an error", "content": {JSON: {"schema": schema(ErrorBody)}}}
    out: dict[str, Any] = {"operationId": f"{each.method.lower()}_{each.name}", "summary": each.meaning}
    out |= {"description": f"For {each.who}.", "parameters": parameters, "responses": {"2XX": found, "default": error}}
    if each.body is not None:
        out["requestBody"] = {"required": True, "content": {JSON: {"schema": schema(each.body)}}}
    return out


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def codes() -> list[str]:
    """All error codes."""
    names, todo = {"internal"}, [TocsinError]
    while todo:
        kind = todo.pop()
        names.add(kind.code)
        todo += [each for each in kind.__subclasses__() if each.__module__ == TocsinError.__module__]
    return sorted(names)


def schema(kind: Any) -> dict[str, Any]:
    if kind is None:
        return {}
    if kind is str:
        return {"type": "string"}
    (out,), _ = msgspec.json.schema_components([kind], ref_template=REFS)
    return out


def query_parameters(kind: type[Struct]) -> list[dict[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    out = []
    for item in msgspec.structs.fields(kind):
        described = schema(hints[item.name])
        text = described.pop("description", "")
        entry: dict[str, Any] = {"name": item.encode_name, "in": "query", "required": item.required}
        if text:
            entry["description"] = text
        if not item.required and item.default is not None:
            described["default"] = item.default
        out.append(entry | {"schema": described})
    return out
