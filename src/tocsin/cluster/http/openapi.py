"""The OpenAPI 3.1 document, generated from the table of operations and the structs they name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tocsin import __version__
from tocsin.cluster.http.operation import PATH_TYPES, Operation
from tocsin.cluster.http.schemas import ScriptError
from tocsin.errors import (
    Busy,
    CrossOrigin,
    Forbidden,
    LimitExceeded,
    Malformed,
    NotJson,
    SystemFailure,
    Unauthorized,
    UnsupportedMedia,
)
from tocsin.http.openapi import REFS, ErrorBody, codes, is_struct, query_parameters, schema
from tocsin.http.responses import JSON, NDJSON


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    table = tuple(operations)
    kinds = [ErrorBody, ScriptError]
    for operation in table:
        kinds += [kind for kind in operation.body.values() if is_struct(kind)]
        kinds += [kind for each in operation.answers for kind in (each.kind, each.line) if is_struct(kind)]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFS)
    schemas["Problem"]["properties"]["code"]["enum"] = codes()
    paths: dict[str, dict[str, Any]] = {}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tocsin data cluster",
            "version": __version__,
            "description": "Publish records, define datasets and channels, subscribe brokers, fetch results. "
            "Every error is JSON with a stable `code`.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def describe(operation: Operation) -> dict[str, Any]:
    out: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.description:
        out["description"] = operation.description
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema(PATH_TYPES[name])}
        for name in operation.path_names
    ]
    parameters += query_parameters(operation.query)
    parameters += [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in operation.headers.items()
    ]
    if parameters:
        out["parameters"] = parameters
    if operation.body:
        content = {media: {"schema": {} if kind is Any else schema(kind)} for media, kind in operation.body.items()}
        out["requestBody"] = {"required": True, "content": content}
    out["responses"] = answers(operation) | errors(operation)
    return out


def answers(operation: Operation) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in operation.answers:
        entry = out.setdefault(str(each.status), {"description": "", "content": {}})
        entry["description"] = entry["description"] or each.description
        for media in each.media:
            if media == NDJSON:
                # OpenAPI 3.1 cannot describe lines; 3.2 has itemSchema.
                entry["content"][media] = {"schema": {"type": "string"}, "x-line-schema": schema(each.line)}
            elif media == JSON:
                entry["content"][media] = {"schema": schema(each.kind)}
            else:
                entry["content"][media] = {"schema": {"type": "string"}}
    return out


def errors(operation: Operation) -> dict[str, Any]:
    """By status, the codes that an operation can answer, and 500 with the code internal."""
    by_status: dict[int, set[str]] = {500: {"internal"}}
    of_body = (NotJson, LimitExceeded, UnsupportedMedia) if operation.body else ()
    of_access = () if operation.access == "anyone" else (Unauthorized, Forbidden)
    for kind in (Malformed, Busy, SystemFailure, CrossOrigin, *of_body, *of_access, *operation.errors):
        by_status.setdefault(kind.status, set()).add(kind.code)
    body = schema(ScriptError if operation.name == "run_script" else ErrorBody)
    return {
        str(status): {"description": ", ".join(sorted(words)), "content": {JSON: {"schema": body}}}
        for status, words in sorted(by_status.items())
    }
